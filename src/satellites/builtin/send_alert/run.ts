/**
 * One attempt of `send-alert`: one alert to a chat or a tool for incidents. Each wire format has an encoder in its own file.
 *
 * One attempt is one request; the runtime repeats. Where the receiver has a dedup key, repeats are one incident there.
 */
import { objectOf, parseJson, stringOf } from "../../../providers/json.ts";
import type { JsonObject } from "../../../work/json.ts";
import type { GuardedResponse } from "../../sdk/guarded_http.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { errorOf, type Outgoing, send, shortCode } from "../exchange/exchange.ts";
import { type Alert, type AlertInput, alertOf } from "./alert.ts";
import type { AlertConfig } from "./config.ts";
import { discordWebhook } from "./discord.ts";
import { jiraServiceManagementAlert } from "./jira_service_management.ts";
import { opsgenieAlert } from "./opsgenie.ts";
import { pagerDutyEvent } from "./pagerduty.ts";
import { slackMessage, slackRefusal, slackWebhook } from "./slack.ts";
import { teamsWorkflow } from "./teams.ts";
import { alertWebhook } from "./webhook.ts";

const OPSGENIE_ENDS =
  "Opsgenie ends on 2027-04-05: use the receiver jira_service_management, which takes the same fields";

type Call = SatelliteCall<AlertInput, AlertConfig>;

export async function run(call: Call): Promise<JsonObject> {
  const { config, clock, input, executionId } = call;
  const wallMs = clock.wallMs();
  const alert = alertOf(input, executionId, wallMs);
  const response = await send(call, encode(alert, config, { executionId, wallMs }), {
    timeoutMs: config.timeout_ms,
  });
  throwRefusal(response, config, clock.wallMs());
  const id = idOf(response);
  return {
    receiver: config.receiver,
    status: response.status,
    dedup_key: alert.dedupKey,
    ...(id === undefined ? {} : { id }),
    ...(config.receiver === "opsgenie" ? { warnings: [OPSGENIE_ENDS] } : {}),
  };
}

function encode(
  alert: Alert,
  config: AlertConfig,
  attempt: { readonly executionId: string; readonly wallMs: number },
): Outgoing {
  switch (config.receiver) {
    case "slack":
      return slackWebhook(alert, config);
    case "slack_api":
      return slackMessage(alert, config);
    case "discord":
      return discordWebhook(alert, config);
    case "teams":
      return teamsWorkflow(alert, config);
    case "pagerduty":
      return pagerDutyEvent(alert, config);
    case "opsgenie":
      return opsgenieAlert(alert, config);
    case "jira_service_management":
      return jiraServiceManagementAlert(alert, config);
    case "webhook":
      return alertWebhook(alert, config, attempt);
  }
}

function throwRefusal(response: GuardedResponse, { receiver }: AlertConfig, wallMs: number): void {
  const error = errorOf(response, { wallMs, reason: reasonOf(response.body) });
  if (error !== undefined) throw error;
  if (receiver !== "slack_api") return;
  const refusal = slackRefusal(response.body);
  if (refusal === undefined) return;
  const reason = shortCode(refusal.reason) ?? "error";
  const code = `slack_${reason.toLowerCase().replace(/[^a-z0-9_]/g, "_")}`;
  throw new SatelliteError(refusal.failure, code, `Slack answered ${reason}`);
}

/** Slack's webhook answers with a word, the others with JSON. */
function reasonOf(body: Uint8Array): unknown {
  const answer = objectOf(parseJson(body));
  return answer === undefined ? Buffer.from(body).toString() : (answer["code"] ?? answer["error"]);
}

function idOf({ body }: GuardedResponse): string | undefined {
  const answer = objectOf(parseJson(body));
  const id = stringOf(answer?.["requestId"]) ?? stringOf(answer?.["id"]) ?? stringOf(answer?.["ts"]);
  return id?.slice(0, 100);
}
