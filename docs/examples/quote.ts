/**
 * What a file would cost and how long it would take on two models, before anything is sent. Needs no key. Run it:
 *
 *   npx tsx docs/examples/quote.ts [questions.jsonl]
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createEngine } from "perigee";

const input = process.argv[2] ?? fileURLToPath(new URL("questions.jsonl", import.meta.url));
const engine = await createEngine({
  dataDir: await mkdtemp(join(tmpdir(), "perigee-quote-")),
  limits: { openai: { requestsPerMinute: 100 } },
});

for (const model of ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"]) {
  const quote = await engine.quote(input, { slas: [60, 1_440], model });
  const tokens = `${quote.inputTokens}${quote.inputTokensEstimated ? " (estimated)" : ""}`;
  const [usd, low, high] = [quote.billedUsd, quote.billedUsdLow, quote.billedUsdHigh].map((each) =>
    each.toFixed(4),
  );
  console.log(
    `${model}: ${quote.items} items, ${tokens} input tokens, about ${usd} USD billed (${low} to ${high})`,
  );
  for (const sla of quote.slas)
    console.log(`  within ${sla.slaMinutes} minutes: ${sla.isFeasible ? "feasible" : "not feasible"}`);
  console.log(`  takes ${quote.time.seconds} s, bound by ${quote.time.boundBy}`);
}
await engine.close();
