/**
 * `send-alert`: one alert to a chat or a tool for incidents, sent by `run.ts`.
 */
import { z } from "../../../schema.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { ATTEMPTS_MAX, hostOf } from "../exchange/exchange.ts";
import { type AlertInput, alertInput } from "./alert.ts";
import { type AlertConfig, alertConfig } from "./config.ts";

const output = z.strictObject({
  receiver: z.string().describe("That of the config."),
  status: z.number().int().describe("The status of the answer."),
  dedup_key: z.string().describe("Acknowledges and resolves this alert, where the receiver knows of that."),
  id: z.string().exactOptional().describe("What the receiver calls the message or the request."),
  warnings: z.array(z.string()).exactOptional().describe("What should be changed before long."),
});

/** Repeatable unless the config says otherwise: receivers with a dedup key recognise repeats. */
export function sendAlert(): Satellite<AlertInput, AlertConfig> {
  return defineSatellite<AlertInput, AlertConfig>({
    name: "send-alert",
    description:
      "Sends an alert to Slack, Discord, Microsoft Teams, PagerDuty, Opsgenie, Jira Service Management or a webhook; acknowledges and resolves it.",
    input: alertInput,
    config: alertConfig,
    output,
    isRepeatable: ({ config }) => config.repeatable,
    destination: ({ config }) => hostOf("url" in config ? config.url : config.base_url),
    attemptsMax: ATTEMPTS_MAX,
    run: loadedRun(async () => (await import("./run.ts")).run),
  });
}
