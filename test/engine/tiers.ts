/** Answers of a provider with a flex tier. */
import type { WireResult } from "../../src/dispatch/transport.ts";
import { openaiAnswer, openaiError } from "../../src/testing/index.ts";

/** An answer that names the tier that gave it. */
export function tiered(
  line: number,
  tier: string,
  usage = { inputTokens: 1_000, outputTokens: 100 },
): WireResult {
  const answer = openaiAnswer(`answer ${line}`, usage, "gpt-5-mini");
  if (!answer.ok) throw new Error("not an answer");
  const body = JSON.parse(new TextDecoder().decode(answer.body)) as object;
  return { ...answer, body: new TextEncoder().encode(JSON.stringify({ ...body, service_tier: tier })) };
}

/** The flex tier has no capacity. */
export const SHED: WireResult = openaiError(429, {
  message: "resource unavailable",
  code: "resource_unavailable",
});
