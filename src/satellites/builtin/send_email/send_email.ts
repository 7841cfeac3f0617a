/**
 * `send-email`: one message, through a mail server or a provider's API, sent by `run.ts`.
 */
import { z } from "../../../schema.ts";
import { defineSatellite } from "../../sdk/define.ts";
import { loadedRun } from "../../sdk/loaded_run.ts";
import type { Satellite } from "../../sdk/satellite.ts";
import { hostOf } from "../exchange/exchange.ts";
import { type MailConfig, mailConfig } from "./config.ts";
import { type MailInput, mailInput } from "./input.ts";
import { providerBase } from "./mail_providers.ts";
import type { SendEmailOptions } from "./run.ts";

const ATTEMPT_MS_MAX = 600_000;

const rejection = z.strictObject({
  address: z.string(),
  status: z.number().int().describe("Of the server, such as 550."),
  message: z.string().describe("What it said."),
});

const output = z.strictObject({
  message_id: z.string().describe("The header Message-ID; made of the execution's id."),
  provider: z.string(),
  provider_message_id: z.string().exactOptional().describe("The provider's own id."),
  accepted: z.array(z.string()).describe("Addresses that the server or provider took it for."),
  rejected: z.array(rejection).describe("Addresses that it refused."),
  response: z.string().exactOptional().describe("What a mail server said last."),
});

/**
 * Not repeatable, but where the provider recognises repeats or the config allows them: a message twice is worse than a failure that
 * is shown.
 */
export function sendEmail(options: SendEmailOptions = {}): Satellite<MailInput, MailConfig> {
  return defineSatellite<MailInput, MailConfig>({
    name: "send-email",
    description:
      "Sends an e-mail through an SMTP server, Amazon SES, SendGrid, Mailgun, Postmark or Resend, with files of the project attached.",
    input: mailInput,
    config: mailConfig,
    output,
    isRepeatable: ({ config }) => config.repeat_ambiguous || config.provider === "resend",
    destination: ({ config }) =>
      config.provider === "smtp" ? `${config.host}:${config.port}` : hostOf(providerBase(config)),
    attemptMsMax: ATTEMPT_MS_MAX,
    run: loadedRun(async () => (await import("./run.ts")).runWith(options)),
  });
}
