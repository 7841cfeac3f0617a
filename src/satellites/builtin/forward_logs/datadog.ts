/**
 * Logs for Datadog: the v2 intake.
 *
 * Source, 2026-11-21: docs.datadoghq.com/api/latest/logs/#send-logs (an array of up to 1,000, 5 MB before packing, 1 MB each, gzip, 202;
 * 408, 429 and 5xx to be sent again), docs.datadoghq.com/logs/log_configuration/attributes_naming_convention (`status`, `timestamp`).
 */
import { baseOf } from "../exchange/receiver_fields.ts";
import type { LogEntry } from "./entry.ts";
import { ALL_TAKEN, type HttpLogReceiver, MIB } from "./receiver.ts";

export interface DatadogConfig {
  readonly api_key: string;
  readonly site: string;
  readonly base_url?: string | undefined;
  readonly service: string;
  readonly source: string;
  readonly hostname?: string | undefined;
  readonly tags: readonly string[];
}

/** Takes a batch whole or not at all. */
export function datadog(config: DatadogConfig): HttpLogReceiver {
  const { api_key, site, base_url = intakeOf(site) } = config;
  return {
    bounds: { entries: 1_000, bytes: MIB, messageBytes: 512 * 1024 },
    encode: (batch) => ({
      url: `${baseOf(base_url)}/api/v2/logs`,
      headers: { "content-type": "application/json", "dd-api-key": api_key },
      body: JSON.stringify(batch.map(({ entry }) => logOf(entry, config))),
    }),
    read: () => ALL_TAKEN,
  };
}

/** Where logs of a site go. */
export function intakeOf(site: string): string {
  return `https://http-intake.logs.${site}`;
}

function logOf({ wallMs, level, message, attributes }: LogEntry, config: DatadogConfig): object {
  const { service, source, hostname, tags } = config;
  return {
    ...attributes,
    ddsource: source,
    ...(tags.length === 0 ? {} : { ddtags: tags.join(",") }),
    ...(hostname === undefined ? {} : { hostname }),
    service,
    message,
    status: level,
    timestamp: new Date(wallMs).toISOString(),
  };
}
