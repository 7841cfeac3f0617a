/** Realtime requests on OpenAI's wire, for all fakes that speak it: answered, billed, refused as the account says. */
import type { FakeAccount, Refuse } from "./account.ts";
import { type FakeReply, jsonReply, objectOf } from "./fake.ts";
import { openaiAnswered, openaiAsked } from "./openai_answers.ts";
import { idOf } from "./results.ts";

/** `isTold`: the answer says what it cost, as OpenRouter's do. */
export function answerChat(
  account: FakeAccount,
  refuse: Refuse,
  endpoint: string,
  body: Uint8Array,
  isTold = false,
): FakeReply {
  const request = objectOf(body);
  const asked = request && openaiAsked(endpoint, request);
  if (asked === undefined) return refuse(400, "invalid_request_error", "not a request");
  const isFlex = request?.["service_tier"] === "flex";
  const { ledger, nowMs } = account;
  const id = idOf("", ledger.charges.length, asked.prompt);
  return account.realtime(asked, isFlex ? "flex" : "realtime", (refused) => {
    if (refused !== undefined) return refused;
    const said = { id: `chatcmpl-${id}`, createdMs: nowMs, tier: isFlex ? "flex" : "default" };
    const answer = openaiAnswered(endpoint, asked, said);
    const { usage } = answer as { readonly usage: object };
    const cost = (ledger.charges.at(-1)?.nanoUsd ?? 0) / 1e9;
    const told = isTold ? { ...answer, usage: { ...usage, cost } } : answer;
    return jsonReply(200, told, { "x-request-id": `req_${id}` });
  });
}
