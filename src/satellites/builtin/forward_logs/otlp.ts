/**
 * Logs by OTLP over HTTP, in JSON: any OpenTelemetry collector.
 *
 * Sources, 2026-11-21: opentelemetry.io/docs/specs/otlp/#otlphttp (`/v1/logs`, gzip; only 429, 502, 503 and 504 may be sent again; of a
 * partial success nothing may), opentelemetry.io/docs/specs/otel/logs/data-model (severity numbers), and the JSON encoding of
 * protobuf (64-bit numbers as text).
 */
import { objectOf, parseJson, stringOf } from "../../../providers/json.ts";
import type { Json } from "../../../work/json.ts";
import type { SatelliteFailure } from "../../sdk/satellite_error.ts";
import { failureOf } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import type { Level, LogEntry } from "./entry.ts";
import { type HttpLogReceiver, MIB, type Verdict } from "./receiver.ts";

const AGAIN: readonly number[] = [429, 502, 503, 504];

const SEVERITIES: Readonly<Record<Level, number>> = {
  trace: 1,
  debug: 5,
  info: 9,
  warning: 13,
  error: 17,
  critical: 21,
};

export interface OtlpConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
}

/** Counts what it refuses, without saying which. */
export function otlp({ url, headers, resource }: OtlpConfig): HttpLogReceiver {
  return {
    bounds: { entries: 1_000, bytes: MIB, messageBytes: 256 * 1024 },
    encode: (batch) => ({
      url: `${baseOf(url)}/v1/logs`,
      headers: {
        ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
        "content-type": "application/json",
      },
      body: JSON.stringify({
        resourceLogs: [
          {
            resource: { attributes: pairs(resource) },
            scopeLogs: [
              { scope: { name: "perigee" }, logRecords: batch.map(({ entry }) => recordOf(entry)) },
            ],
          },
        ],
      }),
    }),
    read: ({ body }, entries) => verdictOf(body, entries),
    failureOf: otlpFailure,
  };
}

function otlpFailure(status: number): SatelliteFailure | undefined {
  const failure = failureOf(status);
  return failure === undefined || AGAIN.includes(status) ? failure : "permanent";
}

function recordOf({ wallMs, level, message, attributes }: LogEntry): object {
  const nanoseconds = `${wallMs}000000`;
  return {
    timeUnixNano: nanoseconds,
    observedTimeUnixNano: nanoseconds,
    severityNumber: SEVERITIES[level],
    severityText: level.toUpperCase(),
    body: { stringValue: message },
    attributes: pairs(attributes),
  };
}

function pairs(attributes: Readonly<Record<string, Json>>): object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: anyValue(value) }));
}

/** Entries are nested 32 deep at most. */
function anyValue(value: Json): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "number")
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  if (value === null) return {};
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } };
  return { kvlistValue: { values: pairs(value as Readonly<Record<string, Json>>) } }; // neither null nor a list
}

/** An empty body is a full success, as `{}` is. The answer does not say which records were refused. */
function verdictOf(body: Uint8Array, entries: number): Verdict {
  const partial = objectOf(objectOf(parseJson(body))?.["partialSuccess"]);
  const told = Number(stringOf(partial?.["rejectedLogRecords"]) ?? partial?.["rejectedLogRecords"] ?? 0);
  const count = Number.isSafeInteger(told) ? Math.min(Math.max(told, 0), entries) : entries;
  return { again: [], rejected: Array.from({ length: count }, () => ({ reason: "rejected_log_records" })) };
}
