/**
 * Times the hot paths of `src/price`: `npx tsx bench/price.ts`.
 *
 * Bounds: a kept price 0.2 us, a cost 0.2 us, a reserve and settle 0.5 us.
 */
import { Budget, Cap } from "../src/price/budget.ts";
import { costOf, worstCaseUsd } from "../src/price/cost.ts";
import { priceFactor } from "../src/price/factor.ts";
import { PriceBook } from "../src/price/price_book.ts";

const ROUNDS = 2_000_000;
const wallMs = Date.parse("2026-11-20T12:00:00Z");
const model = { provider: "openai", name: "gpt-6-sol" };
const usage = {
  inputTokens: 900,
  cachedTokens: 300,
  cacheWriteTokens: 0,
  outputTokens: 200,
  reasoningTokens: 50,
  isEstimated: false,
};

const book = new PriceBook();
const loadStart = performance.now();
const price = book.price(model, wallMs);
console.log(`first price (loads the list): ${(performance.now() - loadStart).toFixed(1)} ms`);
const budget = new Budget([new Cap(1_000_000)]);

time("PriceBook.price, kept", (round) => book.price(model, wallMs + (round & 1023))?.inputUsdPerMillion ?? 0);
time(
  "costOf",
  (round) => costOf({ ...usage, outputTokens: round }, price, { factor: 0.5, laneFactor: 1 }).usd,
);
time("worstCaseUsd", (round) => worstCaseUsd({ inputTokens: round, maxOutputTokens: 512 }, price));
time("priceFactor", (round) => priceFactor("openai:gpt-6-sol", 1 + (round & 1023), round));
time("Budget reserve and settle", () => {
  const answer = budget.reserve(0.0005);
  if (answer.ok) budget.settle(answer.reservation, { billedUsd: 0.0001, ambiguousUsd: 0 });
  return 0;
});

function time(name: string, run: (round: number) => number): void {
  let sink = 0;
  for (let round = 0; round < ROUNDS / 10; round++) sink += run(round);
  const start = performance.now();
  for (let round = 0; round < ROUNDS; round++) sink += run(round);
  const us = ((performance.now() - start) * 1_000) / ROUNDS;
  console.log(`${name}: ${us.toFixed(3)} us${sink === Number.MIN_VALUE ? "!" : ""}`);
}
