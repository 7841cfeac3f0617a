/**
 * Logs for Grafana Loki: the push API in JSON. Labels are those of the config and the level; attributes are structured metadata,
 * which no index grows with.
 *
 * Sources, 2026-11-21: grafana.com/docs/loki/latest/reference/loki-http-api/#ingest-logs (streams, times in nanoseconds as text, gzip, 204;
 * an entry of the same time and text in a stream is the same entry), grafana.com/docs/loki/latest/configure/#limits_config (a line of
 * 256 KB, 15 labels, 128 names of structured metadata).
 */
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { asText, type LogEntry } from "./entry.ts";
import { ALL_TAKEN, basic, type HttpLogReceiver, MIB, type Numbered } from "./receiver.ts";

const METADATA_MAX = 100;

export interface LokiConfig {
  readonly url: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly tenant?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly token?: string | undefined;
}

/** Takes a batch whole or not at all. */
export function loki(config: LokiConfig): HttpLogReceiver {
  return {
    bounds: { entries: 1_000, bytes: MIB, messageBytes: 200 * 1024 },
    encode: (batch) => encode(batch, config),
    read: () => ALL_TAKEN,
  };
}

function encode(batch: readonly Numbered[], config: LokiConfig): Outgoing & { readonly body: string } {
  const { url, labels, tenant, username, password, token } = config;
  const streams = new Map<string, [string, string, Record<string, string>][]>();
  for (const { entry } of batch) {
    const values = streams.get(entry.level) ?? [];
    streams.set(entry.level, values);
    values.push([`${entry.wallMs}000000`, entry.message, metadata(entry)]);
  }
  const body = {
    streams: [...streams].map(([level, values]) => ({ stream: { ...labels, level }, values })),
  };
  return {
    url: `${baseOf(url)}/loki/api/v1/push`,
    headers: {
      "content-type": "application/json",
      ...(tenant === undefined ? {} : { "x-scope-orgid": tenant }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(username === undefined ? {} : { authorization: basic(username, password ?? "") }),
    },
    body: JSON.stringify(body),
  };
}

function metadata({ attributes }: LogEntry): Record<string, string> {
  const named = Object.entries(attributes).slice(0, METADATA_MAX);
  return Object.fromEntries(named.map(([name, value]) => [labelName(name), asText(value)]));
}

/** Letters, digits and `_`, with no digit first. */
function labelName(name: string): string {
  return name.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(?=\d|$)/, "_");
}
