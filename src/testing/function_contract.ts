/**
 * What every provider function must do: answer with whole data, also when calls overlap, and end soon when nobody waits for it.
 */
import assert from "node:assert/strict";
import { systemClock } from "../clock.ts";
import type { FunctionRequest, ProviderFunction } from "../providers/function.ts";
import { functionProvider } from "../providers/function.ts";
import type { ContractCase } from "./contract_case.ts";

/** How long a function may take after its signal was aborted. */
const END_MS_MAX = 1_000;

/**
 * The cases. They call the function: it needs a counterpart that answers, or a model that costs little. `model` is without the
 * provider's name.
 */
export function functionContract(
  call: ProviderFunction,
  model: string = "any-model",
): readonly ContractCase[] {
  const cases: Readonly<Record<string, (call: ProviderFunction, model: string) => Promise<void>>> = {
    "answers a plain request with an answer that perigee understands": answersPlain,
    "answers a request with a system instruction, several turns and settings": answersSettings,
    "answers calls that overlap": overlaps,
    "ends soon when its signal is aborted": endsWhenAborted,
    "ends soon when its signal was aborted before the call": endsWhenAbortedBefore,
  };
  return Object.entries(cases).map(([name, run]) => ({ name, run: () => run(call, model) }));
}

function plain(model: string, text: string = "Hello"): FunctionRequest {
  return { model, messages: [{ role: "user", content: text }], settings: {} };
}

function withSettings(model: string): FunctionRequest {
  return {
    model,
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "One?" },
      { role: "assistant", content: "One." },
      { role: "user", content: "Two?" },
    ],
    settings: { temperature: 0.5, maxOutputTokens: 64, stopSequences: ["end"], seed: 7 },
  };
}

async function answer(call: ProviderFunction, request: FunctionRequest): Promise<void> {
  const { signal } = new AbortController();
  const answered = await call(request, { signal });
  const body = Buffer.from(JSON.stringify(answered) ?? "null");
  const codec = functionProvider({ name: "tested", protocol: "function", baseUrl: "" });
  const decoded = codec.decode({ status: 200, headers: {}, body, wallMs: 0 });
  assert.equal(decoded.class, "success", decoded.class === "success" ? "" : decoded.message);
  const isCounted = answered.usage === undefined || decoded.usage !== undefined;
  assert.ok(isCounted, `usage needs whole numbers from 0, got ${JSON.stringify(answered.usage)}`);
}

async function answersPlain(call: ProviderFunction, model: string): Promise<void> {
  await answer(call, plain(model));
}

async function answersSettings(call: ProviderFunction, model: string): Promise<void> {
  await answer(call, withSettings(model));
}

async function overlaps(call: ProviderFunction, model: string): Promise<void> {
  await Promise.all(["One?", "Two?", "Three?"].map((text) => answer(call, plain(model, text))));
}

async function endsWhenAborted(call: ProviderFunction, model: string): Promise<void> {
  const controller = new AbortController();
  const ended = settled(call, plain(model), controller.signal);
  controller.abort();
  await endsSoon(ended);
}

async function endsWhenAbortedBefore(call: ProviderFunction, model: string): Promise<void> {
  await endsSoon(settled(call, plain(model), AbortSignal.abort()));
}

async function settled(call: ProviderFunction, request: FunctionRequest, signal: AbortSignal): Promise<true> {
  try {
    await call(request, { signal });
  } catch {
    // an error is how a call that nobody waits for usually ends
  }
  return true;
}

async function endsSoon(ended: Promise<true>): Promise<void> {
  const late = new AbortController();
  const isLate = systemClock.sleep(END_MS_MAX, { signal: late.signal }).then(
    () => false,
    () => false,
  );
  const isEnded = await Promise.race([ended, isLate]);
  late.abort();
  assert.ok(
    isEnded,
    "the function continues after its signal was aborted: pass the signal to what it waits for",
  );
}
