/**
 * `forward-logs`: entries of a list or the lines of a file to a receiver of logs, sent in batches by `run.ts`.
 */
import { z } from "../../../schema.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { ATTEMPTS_MAX, hostOf } from "../exchange/exchange.ts";
import { type LogConfig, logConfig } from "./config.ts";
import { intakeOf } from "./datadog.ts";
import { input, type LogInput } from "./input.ts";

const CONCURRENCY = 4;

const output = z.strictObject({
  receiver: z.string().describe("That of the config."),
  entries: z.number().int().describe("Entries that the receiver took."),
  batches: z.number().int().describe("Requests or connections that they were sent with, repeats left out."),
});

/** Repeatable, as logs are: entries may arrive twice, but never get lost. */
export function forwardLogs(): Satellite<LogInput, LogConfig> {
  return defineSatellite<LogInput, LogConfig>({
    name: "forward-logs",
    description:
      "Forwards log entries or the lines of a file to Loki, Splunk, Elasticsearch, OpenSearch, Datadog, New Relic, OTLP or syslog.",
    input,
    config: logConfig,
    output,
    // At least once, as logs are forwarded everywhere: an entry twice is better than a lost one.
    isRepeatable: true,
    destination: ({ config }) => destinationOf(config),
    destinationConcurrency: CONCURRENCY,
    attemptsMax: ATTEMPTS_MAX,
    run: loadedRun(async () => (await import("./run.ts")).run),
  });
}

function destinationOf(config: LogConfig): string | undefined {
  if (config.receiver === "syslog") return `${config.host}:${config.port}`;
  if (config.receiver === "datadog") return hostOf(config.base_url ?? intakeOf(config.site));
  return hostOf(config.receiver === "new_relic" ? config.base_url : config.url);
}
