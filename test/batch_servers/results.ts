/** The results of a batch in the order of its file, with all that may be wrong in one. */
import type { FakeAccount } from "./account.ts";
import { chanceAt, hashOf } from "./chance.ts";
import { textBytes } from "./fake.ts";
import type { Run, RunItem } from "./run.ts";

export interface FakeResult {
  /** Undefined for a result under an id that was never submitted. */
  readonly item: RunItem | undefined;
  readonly id: string;
  /** What it was answered with; undefined for a request that was not finished. */
  readonly status: number | undefined;
}

/**
 * All results that exist now: of finished requests and, once the batch is at its end, of the others. `isStable`: in an order to
 * which later ones are only added.
 */
export function resultsOf(account: FakeAccount, run: Run, { isStable = false } = {}): FakeResult[] {
  const { nowMs, behaviour } = account;
  const { hasNoResults, missingShare = 0, repeatedShare = 0, unknownIds = 0 } = run.wrong;
  if (hasNoResults === true || run.isFailing) return [];
  const finished = run.finishedFrom(0, nowMs);
  const results = finished.map((item) => ({ item, id: item.id, status: account.statusOf(run, item) }));
  const left = run.isEndedAt(nowMs) ? run.unfinished(nowMs) : [];
  let all: FakeResult[] = [...results, ...left.map((item) => ({ item, id: item.id, status: undefined }))];
  const drawn = (item: RunItem | undefined, salt: number): number =>
    chanceAt(behaviour.seed ^ salt, run.nth * 1_000_003 + (item?.index ?? 0));
  if (!isStable && behaviour.keepsOrder)
    all.sort((one, two) => (one.item?.index ?? 0) - (two.item?.index ?? 0));
  else if (!isStable) all = shuffled(all, (index) => chanceAt(behaviour.seed + run.nth, index));
  all = all.flatMap((result) => {
    const { item } = result;
    if (item?.fate.isMissing || (missingShare > 0 && drawn(item, 1) < missingShare)) return [];
    if (item?.fate.isTwice || (repeatedShare > 0 && drawn(item, 2) < repeatedShare)) return [result, result];
    return [result];
  });
  for (let index = 0; index < unknownIds; index += 1)
    all.splice(index % (all.length + 1), 0, { item: undefined, id: `stranger-${index}`, status: 200 });
  return all;
}

/** Lines as a file, of which the last one may be torn. */
export function fileOf(run: Run, lines: readonly string[]): Uint8Array {
  const text = lines.length === 0 ? "" : `${lines.join("\n")}\n`;
  const last = lines.at(-1) ?? "";
  return textBytes(run.wrong.isTorn === true ? text.slice(0, -Math.ceil(last.length / 2)) : text);
}

/** An id of the provider's own, always the same for the same parts. */
export function idOf(prefix: string, ...parts: readonly (string | number)[]): string {
  const text = parts.join("/");
  const hex = (salt: number): string => hashOf(text, salt).toString(16).padStart(8, "0");
  return `${prefix}${hex(0)}${hex(1)}`;
}

function shuffled<T>(values: T[], chance: (index: number) => number): T[] {
  for (let index = values.length - 1; index > 0; index -= 1) {
    const other = Math.floor(chance(index) * (index + 1));
    [values[index], values[other]] = [values[other] as T, values[index] as T];
  }
  return values;
}
