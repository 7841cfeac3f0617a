/** How large the answer of a provider function may be: bytes of its JSON, with any characters. */
import { expect, it } from "vitest";
import { FunctionTransport } from "../../src/dispatch/function_transport.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { ScriptedTransport } from "../../src/testing/scripted_transport.ts";

const MAX = 32 * 1024 * 1024;
const QUOTES = 2;

it.each([
  ["one-byte characters that fill it", "a".repeat(MAX - QUOTES), true],
  ["one-byte characters, one too many", "a".repeat(MAX - QUOTES + 1), false],
  ["two-byte characters that fill it", "ä".repeat(MAX / 2 - 1), true],
  ["two-byte characters, one byte too many", `${"ä".repeat(MAX / 2 - 1)}a`, false],
  ["four-byte characters, one too many", "😀".repeat(MAX / 4), false],
])("an answer of a function of 32 MiB: %s", async (_, answer, fits) => {
  const functions = new Map([["function:mine", async () => answer as never]]);
  const clock = new FakeClock();
  const below = new ScriptedTransport(clock, () => {
    throw new Error("nothing is sent");
  });
  const transport = new FunctionTransport(below, clock, functions);
  const request = { origin: "function:mine", path: "/", headers: {}, body: Buffer.from("{}") };
  const result = await transport.send(request, { timeoutMs: 1_000 });
  if (result.ok) expect(result.body.byteLength).toBe(MAX);
  else expect(result.failure).toBe("too_large");
  expect(result.ok).toBe(fits);
  await transport.close();
});
