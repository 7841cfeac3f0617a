/**
 * Logs for New Relic: the Log API in its detailed form.
 *
 * Source, 2026-11-21: docs.newrelic.com/docs/logs/log-api/introduction-log-api (`Api-Key`, times in milliseconds, 10^6 bytes a POST, 255
 * attributes with names of 255 characters and values of 4,094, gzip, 202; log-api.eu.newrelic.com for accounts in the EU).
 */
import { cutText } from "../exchange/cut_text.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { asText, type LogEntry } from "./entry.ts";
import { ALL_TAKEN, type HttpLogReceiver } from "./receiver.ts";

const BYTES_MAX = 900_000;
const ATTRIBUTES_MAX = 250;
const NAME_MAX = 255;
const VALUE_MAX = 4_094;

export interface NewRelicConfig {
  readonly api_key: string;
  readonly base_url: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** Takes a batch whole or not at all. */
export function newRelic({ api_key, base_url, attributes }: NewRelicConfig): HttpLogReceiver {
  return {
    bounds: { entries: 1_000, bytes: BYTES_MAX, messageBytes: 100 * 1024 },
    encode: (batch) => ({
      url: `${baseOf(base_url)}/log/v1`,
      headers: { "content-type": "application/json", "api-key": api_key },
      body: JSON.stringify([{ common: { attributes }, logs: batch.map(({ entry }) => logOf(entry)) }]),
    }),
    read: () => ALL_TAKEN,
  };
}

function logOf({ wallMs, level, message, attributes }: LogEntry): object {
  const named = Object.entries(attributes)
    .slice(0, ATTRIBUTES_MAX)
    .map(([name, value]) => [
      name.slice(0, NAME_MAX),
      typeof value === "number" || typeof value === "boolean" ? value : cutText(asText(value), VALUE_MAX),
    ]);
  return { timestamp: wallMs, message, attributes: { ...Object.fromEntries(named), level } };
}
