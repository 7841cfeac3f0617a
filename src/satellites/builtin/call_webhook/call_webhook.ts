/**
 * `call-webhook`: one HTTP request to where its config says; `run.ts` makes it.
 */
import { z } from "../../../schema.ts";
import type { JsonObject } from "../../../work/json.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { ATTEMPTS_MAX, hostOf } from "../exchange/exchange.ts";
import { type WebhookConfig, webhookConfig } from "./config.ts";
import { webhookAnswer } from "./webhook_answer.ts";

const IDEMPOTENT: readonly string[] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

const input = z
  .record(z.string(), z.json())
  .describe("Values for the templates; the body itself if the config does not set one.");

const output = z.strictObject({
  status: z.number().int().describe("The status of the answer, 200 to 299."),
  answer: webhookAnswer.exactOptional().describe("What was answered, when the config asks for it."),
});

/**
 * Repeats what may have arrived where the method is idempotent, the request is signed (its id identifies repeats), or the config
 * says so.
 */
export function callWebhook(): Satellite<JsonObject, WebhookConfig> {
  return defineSatellite<JsonObject, WebhookConfig>({
    name: "call-webhook",
    description:
      "Calls a webhook with any method: headers, query and body from templates, signed by Standard Webhooks when there is a secret.",
    input,
    config: webhookConfig,
    output,
    isRepeatable: ({ config: { repeatable, method, secret } }) =>
      repeatable ?? (secret !== undefined || IDEMPOTENT.includes(method)),
    destination: ({ config }) => hostOf(config.url),
    attemptsMax: ATTEMPTS_MAX,
    run: loadedRun(async () => (await import("./run.ts")).run),
  });
}
