/**
 * What must hold of a run, by the provider's own books: each key has one line, and what is billed is what the books say.
 *
 *   billed <= books <= billed + ambiguous; equal where nothing is in doubt          (nano-USD, each item rounded once, half up)
 */
import type { BatchFake } from "../../batch_servers/fake.ts";
import type { BatchWorld } from "./batch_world.ts";

/** What the lines of a run say, and the books of its provider. */
export interface Books {
  readonly billedNanos: number;
  readonly ambiguousNanos: number;
  readonly booksNanos: number;
}

export function booksOf(world: BatchWorld, fake: BatchFake): Books {
  let billedNanos = 0;
  let ambiguousNanos = 0;
  for (const { cost } of world.lines()) {
    billedNanos += nanosOf(cost?.billed_usd ?? 0);
    ambiguousNanos += nanosOf(cost?.ambiguous_usd ?? 0);
  }
  return { billedNanos, ambiguousNanos, booksNanos: fake.ledger.sums().nanoUsd };
}

/** What is wrong with the lines and the money of a run over so many items. */
export function wrongsOf(world: BatchWorld, fake: BatchFake, items: number): string[] {
  const wrong: string[] = [];
  const lines = world.lines();
  const keys = new Set(lines.map(({ key }) => key));
  if (lines.length !== items || keys.size !== items)
    wrong.push(`${lines.length} lines for ${keys.size} keys`);
  const { billedNanos, ambiguousNanos, booksNanos } = booksOf(world, fake);
  if (billedNanos > booksNanos) wrong.push(`billed ${billedNanos} nano-USD, books ${booksNanos}`);
  if (booksNanos > billedNanos + ambiguousNanos)
    wrong.push(`books ${booksNanos} nano-USD, billed ${billedNanos} and ${ambiguousNanos} in doubt`);
  return wrong;
}

/** Prompts that were billed more than once. */
export function paidTwice(fake: BatchFake): readonly string[] {
  const paid = [...fake.ledger.byPrompt()];
  return paid.flatMap(([prompt, charges]) =>
    charges.filter(({ nanoUsd }) => nanoUsd > 0).length > 1 ? [prompt] : [],
  );
}

/** Half up, beside what sums of fractions leave. */
export function nanosOf(usd: number): number {
  return Math.floor(usd * 1e9 + 0.5 + 1e-6);
}
