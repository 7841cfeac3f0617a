/**
 * Logs for Splunk: the HTTP Event Collector, events one after another.
 *
 * Sources, 2026-11-21: help.splunk.com/en/splunk-enterprise/get-data-in/collect-http-event-data/format-events-for-http-event-collector
 * (time in seconds, host, source, sourcetype, index, event), .../troubleshoot-http-event-collector (codes: 0 success, 9 server is
 * busy with 503; a channel is needed where acknowledgment is on). Gzip is taken.
 */
import { objectOf, parseJson } from "../../../providers/json.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { ALL_TAKEN, type HttpLogReceiver, MIB, type Numbered } from "./receiver.ts";

export interface SplunkConfig {
  readonly url: string;
  readonly token: string;
  readonly index?: string | undefined;
  readonly source: string;
  readonly sourcetype: string;
  readonly host?: string | undefined;
}

/** `channel` is a UUID: that of the execution. */
export function splunk(config: SplunkConfig, channel: string): HttpLogReceiver {
  return {
    bounds: { entries: 1_000, bytes: MIB, messageBytes: 256 * 1024 },
    encode: (batch) => encode(batch, config, channel),
    read: ({ body }) => (objectOf(parseJson(body))?.["code"] === 0 ? ALL_TAKEN : undefined),
    reason: ({ body }) => objectOf(parseJson(body))?.["code"],
  };
}

function encode(
  batch: readonly Numbered[],
  { url, token, index, source, sourcetype, host }: SplunkConfig,
  channel: string,
): Outgoing & { readonly body: string } {
  const events = batch.map(({ entry: { wallMs, level, message, attributes } }) =>
    JSON.stringify({
      time: wallMs / 1_000,
      ...(host === undefined ? {} : { host }),
      source,
      sourcetype,
      ...(index === undefined ? {} : { index }),
      event: { ...attributes, message, level },
    }),
  );
  return {
    url: `${baseOf(url)}/services/collector/event`,
    headers: {
      "content-type": "application/json",
      authorization: `Splunk ${token}`,
      "x-splunk-request-channel": channel,
    },
    body: events.join("\n"),
  };
}
