/**
 * One attempt of `call-webhook`: one HTTP request to where its config says, made of templates and the input.
 *
 *   filled in -> (signed) -> sent -> 2xx completed | another status or no answer: failed, see exchange.ts
 *
 * One attempt makes one request; the runtime repeats. Redirects are failures. The answer is in the output when it is
 * asked for, and is never read further than that.
 *
 * Limits: a file of 4 MiB as the body (256 attempts at once may each hold one), an answer of 64 KiB, 15 s.
 */
import { signedHeaders } from "../../../egress/webhook_signature.ts";
import type { JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { errorOf, type Outgoing, send } from "../exchange/exchange.ts";
import { readSmallFile } from "../files/small_file.ts";
import type { WebhookConfig } from "./config.ts";
import { answerOf } from "./webhook_answer.ts";
import { type FileBody, fileOf, webhookRequest } from "./webhook_request.ts";

const BODY_BYTES_MAX = 4 * 1024 * 1024;

export async function run(call: SatelliteCall<JsonObject, WebhookConfig>): Promise<JsonObject> {
  const { config, clock } = call;
  const request = webhookRequest(config, call.input, await bodyFile(call));
  const headers =
    config.secret === undefined
      ? request.headers
      : { ...request.headers, ...signature(call.executionId, request.body, config.secret, clock.wallMs()) };
  const response = await send(call, { ...request, headers }, { timeoutMs: config.timeout_ms });
  const error = errorOf(response, { wallMs: clock.wallMs() });
  if (error !== undefined) throw error;
  const { status } = response;
  return config.answer === undefined
    ? { status }
    : { status, answer: answerOf(response, config.answer.headers) };
}

async function bodyFile(call: SatelliteCall<JsonObject, WebhookConfig>): Promise<FileBody | undefined> {
  const id = fileOf(call.config, call.input);
  return id === undefined ? undefined : readSmallFile(call, id, BODY_BYTES_MAX);
}

/** What is signed is text by the standard, so that a body of other bytes has no signature. */
function signature(
  id: string,
  body: Outgoing["body"],
  secret: string,
  wallMs: number,
): Readonly<Record<string, string>> {
  return signedHeaders({ id, wallMs, body: asText(body ?? "") }, [secret]);
}

function asText(body: Uint8Array | string): string {
  if (typeof body === "string") return body;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch (cause) {
    const message = "the file is not UTF-8, and only text can be signed";
    throw new SatelliteError("permanent", "not_signable", message, { cause });
  }
}
