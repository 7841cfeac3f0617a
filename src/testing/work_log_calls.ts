/**
 * Calls of the work log for tests, with what a case does not say filled in, and what a log says of open work as plain data.
 */
import type { DiskFile } from "../disk.ts";
import type { FieldsOf, OutcomeFields } from "../log/records.ts";
import type { AcceptedWork, WorkLog } from "../log/work_log.ts";

/** Everything that a log says of open work, as plain data. */
export async function stateOf(log: WorkLog): Promise<unknown> {
  const tasks = [...log.openTasks()].map(({ sequence: _sequence, ...task }) => task);
  const states = tasks
    .toSorted((one, other) => one.number - other.number)
    .map(async (task) => ({
      task,
      sums: await log.sumsOf(task.number),
      hold: log.holdOf(task.number)?.reason,
      open: Array.from({ length: Math.min(task.items, 5_000) }, (_, item) =>
        log.isOpen(task.number, item) ? item : -1,
      ).filter((item) => item >= 0),
      tried: [...log.triedItems(task.number)]
        .toSorted(([one], [other]) => one - other)
        .map(([item, { ended, intents }]) => ({
          item,
          attempts: ended?.attempts,
          usd: ended?.usd,
          intents: intents.map(({ attempt, mostUsd }) => ({ attempt, mostUsd })),
        })),
    }));
  const facts = log.facts().map(({ lane, fact, value, forMs }) => ({ lane, fact, value, forMs }));
  return {
    tasks: await Promise.all(states),
    facts: facts.toSorted((a, b) => a.lane - b.lane || a.fact - b.fact),
  };
}

/** Resolves when what follows from the calls so far is durable as well. */
export async function settled(log: WorkLog): Promise<void> {
  for (let commits = 0; commits < 3; commits += 1) await log.learn(9, 9, 9, 9);
}

export function work(id: string, parts: Partial<AcceptedWork> = {}): AcceptedWork {
  return {
    id: `id-${id}`,
    project: "default",
    kind: 1,
    items: 1,
    createdWallMs: 17,
    body: '{"ü":1}',
    ...parts,
  };
}

const SPENT = {
  ...{ isEstimated: 0, price: 0, inputTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 },
  ...{ reasoningTokens: 0, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 },
};

export function intentOf(task: number, item: number, attempt: number): FieldsOf<"intent"> {
  const tokens = { inputTokens: 10, outputTokens: 20 };
  return { task, item, attempt, lane: 0, ...tokens, mostUsd: 0.125 * attempt, offset: 0, lengthBytes: 0 };
}

export function endedOf(
  task: number,
  item: number,
  attempt: number,
  parts: Partial<FieldsOf<"attemptEnded">> = {},
): FieldsOf<"attemptEnded"> {
  const counts = { attempts: attempt, ambiguousAttempts: 0, uncounted: 0, uncountedAmbiguous: 0, nextMs: 0 };
  const failure = { unusableAnswers: 0, code: 0, httpStatus: 0 };
  return { task, item, attempt, ...counts, ...failure, ...SPENT, ...parts };
}

export function outcomeOf(task: number, item: number, parts: Partial<OutcomeFields> = {}): OutcomeFields {
  return { task, item, status: "completed", code: 0, attempts: 1, ambiguousAttempts: 0, ...SPENT, ...parts };
}

export function text(of: string): Uint8Array {
  return new TextEncoder().encode(of);
}

export function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

export async function contentOf(file: DiskFile): Promise<string> {
  const bytes = new Uint8Array(await file.sizeBytes());
  return new TextDecoder().decode(bytes.subarray(0, await file.read(bytes, 0)));
}
