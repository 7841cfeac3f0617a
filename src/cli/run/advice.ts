/**
 * What to do about lines that ended with an error, by its code.
 */
import type { FailureCode } from "../../errors.ts";

const MEND = "correct the line, then run the same command with --update";
const RETRY = "run the same command with --retry-failed";

const ADVICE: Readonly<Record<FailureCode, string>> = {
  invalid_json: MEND,
  invalid_line: MEND,
  invalid_utf8: "convert the file to UTF-8, then run the same command with --update",
  line_too_long: "split the request, then run the same command with --update",
  too_deep: MEND,
  duplicate_member: MEND,
  invalid_key: MEND,
  duplicate_key: "use a different key for each line",
  unknown_model:
    "write the model as <provider>:<name>, then run the same command with --update; or add --model and --retry-failed=unknown_model",
  invalid_config:
    "correct the line, then run the same command with --update; if the model does not support a setting, use --unsupported-config drop and --retry-failed=invalid_config instead",
  invalid_contents: MEND,
  unsupported_request: MEND,
  tokenizer_failed: "report it, with the line if you can share it",
  provider_missing: `configure the provider, then ${RETRY}=provider_missing`,
  key_missing: `set the provider's key, then ${RETRY}=key_missing`,
  price_unknown: `add the model's price to the configuration, then ${RETRY}=price_unknown`,
  ambiguous: "check the account; --retry-failed=ambiguous sends the line again, which may be billed twice",
  expired: `${RETRY} and a longer --sla`,
  cancelled: RETRY,
  budget_exceeded: `${RETRY} and a higher --max-cost`,
  cost_unbounded:
    "leave out the part that a cap cannot bound and run the same command with --update, or with --retry-failed=cost_unbounded --max-cost-unbounded",
  rate_limited: `lower the configured limits, then ${RETRY}`,
  request_too_large: "shorten the request, then run the same command with --update",
  context_length_exceeded: "shorten the request, then run the same command with --update",
  invalid_request:
    "compare the line with what the provider accepts (its own message is not kept, because it may quote the prompt); correct the line, then run the same command with --update",
  model_not_found:
    "correct --model or the line, then run the same command with --retry-failed=model_not_found",
  authentication_failed:
    "set a key that may use the model, then run the same command with --retry-failed=authentication_failed",
  quota_exceeded: `check the account, then ${RETRY}=quota_exceeded`,
  filtered: "change the prompt, then run the same command with --update",
  empty_output:
    "if the token limit was reached, raise max_output_tokens and run the same command with --update; otherwise --retry-failed=empty_output asks again, and is billed again",
  invalid_response: `check the base URL, then ${RETRY}=invalid_response`,
  schema_unmet:
    "read error.answer in the lines, and correct the prompt or the schema; --retry-failed=schema_unmet --model <another> asks another model",
  response_too_large: "ask for less, then run the same command with --update",
  provider_error: RETRY,
  overloaded: RETRY,
  timeout: `${RETRY} and a longer --sla`,
  connection_failed: `check the network and the base URL, then ${RETRY}`,
  media_unreadable: `put the file where the line says, then ${RETRY}=media_unreadable`,
  connection_lost: RETRY,
  input_changed: "put the file back, or run the same command with --update",
  output_damaged: "restore the data folder from a backup, or submit the item again",
};

/** One sentence without its full stop. */
export function adviceOf(code: FailureCode): string {
  return ADVICE[code];
}

/** Codes of errors that may not occur again although nothing was changed. */
const TRANSIENT: ReadonlySet<FailureCode> = new Set([
  "rate_limited",
  "provider_error",
  "overloaded",
  "timeout",
  "connection_failed",
  "connection_lost",
  "cancelled",
]);

/** Whether lines that ended with it are worth another try as they are. */
export function isTransient(code: FailureCode): boolean {
  return TRANSIENT.has(code);
}
