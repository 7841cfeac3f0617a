/**
 * The config of `forward-logs`: which receiver, where it is, its credentials, and how batches are made.
 */
import { z } from "../../../schema.ts";
import type { Schema } from "../../sdk/satellite.ts";
import {
  headersField,
  holdsSecret,
  IS_SECRET,
  timeoutField,
  tokenField,
  urlField,
} from "../exchange/receiver_fields.ts";
import type { DatadogConfig } from "./datadog.ts";
import type { ElasticsearchConfig } from "./elasticsearch.ts";
import type { LokiConfig } from "./loki.ts";
import type { NewRelicConfig } from "./new_relic.ts";
import type { OtlpConfig } from "./otlp.ts";
import type { SplunkConfig } from "./splunk.ts";
import type { SyslogHeader } from "./syslog.ts";
import type { SyslogReceiver } from "./syslog_connection.ts";

interface Shared {
  readonly timeout_ms: number;
  readonly batch: { readonly entries?: number | undefined; readonly bytes?: number | undefined };
}

interface Packed {
  readonly gzip: boolean;
}

export type SyslogConfig = SyslogReceiver & SyslogHeader;

export type HttpLogConfig = Packed &
  (
    | ({ readonly receiver: "loki" } & LokiConfig)
    | ({ readonly receiver: "splunk" } & SplunkConfig)
    | ({ readonly receiver: "elasticsearch" | "opensearch" } & ElasticsearchConfig)
    | ({ readonly receiver: "datadog" } & DatadogConfig)
    | ({ readonly receiver: "new_relic" } & NewRelicConfig)
    | ({ readonly receiver: "otlp" } & OtlpConfig)
  );

/** One receiver, with how batches are made. Secrets are filled in by now. */
export type LogConfig = Shared & (HttpLogConfig | ({ readonly receiver: "syslog" } & SyslogConfig));

const shared = {
  timeout_ms: timeoutField(),
  batch: z
    .strictObject({
      entries: z.int().min(1).max(10_000).optional().describe("Entries at most; default 1,000."),
      bytes: z
        .int()
        .min(1_024)
        .max(4 * 1024 * 1024)
        .optional()
        .describe("Bytes at most, unpacked; default 1 MiB."),
    })
    .default({})
    .describe("How much is sent in one request."),
};

const packed = { gzip: z.boolean().default(true).describe("Packs requests.") };

const name = z.string().min(1).max(255);
const values = z.record(z.string().min(1).max(128), z.string().max(1_024));

const search = {
  url: urlField("Where the server is, with its port."),
  index: z
    .string()
    .max(255)
    .regex(/^(?!\.{1,2}$)[^\s\\/*?"<>|,#:]+$/, "must be the name of one index or data stream")
    .describe("An index or a data stream."),
  api_key: tokenField("An API key, in base64 as you got it.").optional(),
  username: tokenField("For basic authentication.").optional(),
  password: tokenField("For basic authentication.").optional(),
};

const pem = z
  .string()
  .max(65_536)
  .refine((text) => holdsSecret(text) || text.includes("-----BEGIN "), "must be PEM");

export const logConfig: Schema<LogConfig> = z.discriminatedUnion("receiver", [
  z.strictObject({
    receiver: z.literal("loki").describe("Grafana Loki."),
    url: urlField("Where Loki is; /loki/api/v1/push is appended."),
    labels: z
      .record(
        z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of a label"),
        z.string().max(2_048),
      )
      .refine((all) => Object.keys(all).length <= 14, "must be at most 14 labels, beside level")
      .default({ service_name: "perigee" })
      .describe("Labels of the stream, beside `level`."),
    tenant: tokenField("X-Scope-OrgID.").optional(),
    username: tokenField("For basic authentication.").optional(),
    password: tokenField("For basic authentication.").optional(),
    token: tokenField("Sent as Authorization: Bearer.").optional(),
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("splunk").describe("Splunk, by the HTTP Event Collector."),
    url: urlField("Where the collector is, with its port; /services/collector/event is appended."),
    token: tokenField("The collector's token."),
    index: name.optional().describe("Default: the token's."),
    source: name.default("perigee").describe("The source field."),
    sourcetype: name.default("_json").describe("The sourcetype field."),
    host: name.optional().describe("The host field."),
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("elasticsearch").describe("Elasticsearch, by _bulk."),
    ...search,
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("opensearch").describe("OpenSearch, by _bulk."),
    ...search,
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("datadog").describe("Datadog, by the v2 intake."),
    api_key: tokenField("An API key."),
    site: z
      .string()
      .regex(/^[a-z0-9.-]{1,100}$/)
      .default("datadoghq.com")
      .describe("Such as datadoghq.eu."),
    base_url: urlField("Instead of https://http-intake.logs.<site>.").optional(),
    service: name.default("perigee").describe("The service field."),
    source: name.default("perigee").describe("The ddsource field."),
    hostname: name.optional().describe("The hostname field."),
    tags: z.array(z.string().min(1).max(200)).max(100).default([]).describe("Tags, such as env:prod."),
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("new_relic").describe("New Relic, by the Log API."),
    api_key: tokenField("A license key."),
    base_url: urlField("https://log-api.eu.newrelic.com in the EU.").default("https://log-api.newrelic.com"),
    attributes: values.default({}).describe("Attributes of every entry."),
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("otlp").describe("OpenTelemetry, by OTLP over HTTP."),
    url: urlField("Where the collector is; /v1/logs is appended."),
    headers: headersField("Headers by name, such as credentials."),
    resource: values.default({ "service.name": "perigee" }).describe("Attributes of the resource."),
    ...packed,
    ...shared,
  }),
  z.strictObject({
    receiver: z.literal("syslog").describe("Syslog, RFC 5424 over TLS or TCP."),
    host: z.string().min(1).max(255).describe("A name or an address."),
    port: z.int().min(1).max(65_535).default(6_514).describe("6514 is syslog over TLS."),
    tls: z.boolean().default(true).describe("False sends in the clear."),
    ca: pem.optional().describe("Certificates to trust, PEM. Default: those of the system."),
    certificate: pem.optional().describe("Our certificate, PEM, for receivers that ask for one."),
    key: pem.meta(IS_SECRET).optional().describe("Its key, PEM."),
    facility: z.int().min(0).max(23).default(16).describe("16 is local0."),
    hostname: z.string().min(1).max(255).default("perigee").describe("HOSTNAME."),
    app_name: z.string().min(1).max(48).default("perigee").describe("APP-NAME."),
    enterprise_number: z
      .int()
      .min(1)
      .max(4_294_967_295)
      .optional()
      .describe("Your IANA number: attributes become structured data under it, else JSON after the message."),
    ...shared,
  }),
]);
