/**
 * Repairs the output of a task that was moved, cut or changed: writes it again from the lines that are left.
 *
 *   journal -> the checksum of each answered line -> these lines are searched in the file, wherever they are now and whatever
 *     another program did to them (`changed_file.ts`) -> the run is restated with the found ones (`restate.ts`: safe at any
 *     kill); the others are open again, and their cost stays counted
 *
 * Other content of the file is kept as `<output>.damaged`, of a second repair as `<output>.damaged.2`, and so on. The next recovery
 * looks there for answers of open lines (`tail.ts`), because it has the input and its keys.
 *
 * Limits: some 300 bytes of memory per line.
 */
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../../disk.ts";
import { hasCode } from "../../errors.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import type { StoredTask } from "../../store/store.ts";
import { checkOutput } from "../files/output_check.ts";
import { type SettledLine, settledLines } from "../files/settled_lines.ts";
import { encodeBody, type TaskBody } from "../files/task_body.ts";
import { answersPath } from "../files/task_files.ts";
import { countingEntries } from "../files/task_journal.ts";
import {
  changeOf,
  damagedPath,
  decodedPath,
  type FoundPlace,
  linesOf,
  openAsLines,
  writtenForms,
} from "../journal/changed_file.ts";
import { hasCrc32 } from "../journal/checksum.ts";
import { addGone } from "../journal/item_cost.ts";
import { type ClosedRecord, isOf, NOTHING_SPENT, type OutcomeRecord, readStep } from "../journal/journal.ts";
import { Replay } from "../journal/replay.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { type RestatedIn, restate } from "./restate.ts";

/** What was found. */
export interface Repaired {
  readonly body: TaskBody;
  /** Lines that the new output holds, and those that were answered and are requested again. */
  readonly kept: number;
  readonly lost: number;
  /** Whether the file was as it was written: then it was not changed. */
  readonly isIntact: boolean;
  /** What was done to the file, in words that follow "it"; absent if the file does not show it. */
  readonly change?: string;
  /** Where the replaced file is kept; absent if it had nothing but found lines. */
  readonly damaged?: string;
}

/** Writes the output again, unless it is as it was written. Call it while the task is not at work. */
export async function repairOutput(
  core: RestatedIn,
  task: StoredTask,
  body: TaskBody,
  signal: AbortSignal,
): Promise<Repaired> {
  const { disk, store, room } = core.storage;
  const journal = await readJournal(core.storage, task.id, body);
  const path = answersPath(core.storage, task.id, body);
  const from = (await disk.stat(path)) === undefined ? body.out : path; // answers that were put in order
  if (!(await isIntact(disk, from, body, journal.replay)))
    return rewrite(core, { task, body, from, path, journal }, signal);
  const { isOutputChanged, ...rest } = body;
  if (isOutputChanged === true) await room.waitFor(() => store.putTask({ ...task, body: encodeBody(rest) }));
  return { body: rest, kept: journal.replay.done.size, lost: 0, isIntact: true };
}

/** Whether the output is unchanged. In an unfinished run, lines that the journal does not know yet may follow: recovery reads them. */
async function isIntact(disk: Disk, path: string, body: TaskBody, replay: Replay): Promise<boolean> {
  if (body.status !== "completed") return isBegunWith(disk, path, replay);
  if (body.outChecksum === undefined) return false;
  try {
    await checkOutput(disk, path, body.outChecksum);
    return true;
  } catch (error) {
    if (hasCode(error, "output_changed")) return false;
    throw error;
  }
}

async function isBegunWith(disk: Disk, path: string, { outEnd, outCrc32 }: Replay): Promise<boolean> {
  if ((await disk.stat(path)) === undefined) return false;
  return hasCrc32(disk, path, outEnd, outCrc32);
}

interface Rewriting {
  readonly task: StoredTask;
  readonly body: TaskBody;
  /** Path of the changed file. */
  readonly from: string;
  /** Path of the new file, which may be the same. */
  readonly path: string;
  readonly journal: ReadJournal;
}

async function rewrite(core: RestatedIn, rewriting: Rewriting, signal: AbortSignal): Promise<Repaired> {
  const { disk } = core.storage;
  const { from, path } = rewriting;
  const decoded = decodedPath(path);
  const change = await readChange(disk, from);
  const old = (await disk.stat(from)) === undefined ? undefined : await openAsLines(disk, from, decoded);
  try {
    const repaired = await restateFound(core, rewriting, old, signal);
    return change === undefined ? repaired : { ...repaired, change };
  } finally {
    await old?.close();
    await disk.remove(decoded);
  }
}

async function restateFound(
  core: RestatedIn,
  { task, body, from, path, journal }: Rewriting,
  old: DiskFile | undefined,
  signal: AbortSignal,
): Promise<Repaired> {
  const { disk, store } = core.storage;
  const { replay, lines, prices, lastSequence } = journal;
  if (old !== undefined) for await (const line of linesOf(old)) lines.look(line);
  const damaged = lines.strayBytes === 0 ? undefined : await damagedPath(disk, from);
  // An output in order is not appended to: what is put back there would be written over at the end.
  const alsoIn = damaged ?? (old === undefined && body.isOrdered ? body.out : undefined);
  const { isOutputChanged, outBytes, outChecksum, summary, ...rest } = body;
  let kept = 0;
  let lost = 0;
  const restatement = {
    task,
    before: body,
    next: { ...rest, ...(alsoIn === undefined ? {} : { alsoIn }), status: "open" as const },
    path,
    aside: damaged === undefined ? undefined : { from, to: damaged },
    output: old ?? NOTHING,
    lines: foundLines(settledLines(store, task.id, body), lines, old ?? NOTHING),
    fateOf: ({ line }: OutcomeRecord) => {
      const isKept = lines.isFound(line);
      if (isKept) kept += 1;
      else lost += 1;
      return { line, isKept, isAgain: true };
    },
    openLines: [...replay.attemptsMade()].map(([line, made]) => ({ line, made })),
    prices,
    committedUsd: replay.committedUsd,
    gone: goneOf(replay),
    lastSequence,
  };
  const repaired = await restate(core, restatement, signal);
  return { body: repaired, kept, lost, isIntact: false, ...(damaged === undefined ? {} : { damaged }) };
}

const NOTHING: Pick<DiskFile, "read"> = { read: async () => 0 };

/** Usage of lines that no longer count, with the money in doubt that earlier versions did not record. */
function goneOf({ gone, unrecordedUsd }: Replay): readonly ClosedRecord[] {
  if (unrecordedUsd <= 0) return gone;
  const none = {
    line: 0,
    attempts: 0,
    uncounted: 0,
    ambiguousAttempts: 0,
    uncountedAmbiguous: 0,
    unusableAnswers: 0,
  };
  const all = [...gone];
  addGone(all, { ...NOTHING_SPENT, ...none, ambiguousUsd: unrecordedUsd });
  return all;
}

/** Each settled line with its text as it was written; without a text if it was not found. */
async function* foundLines(
  settled: AsyncIterable<SettledLine>,
  lines: SoughtLines,
  file: Pick<DiskFile, "read">,
): AsyncGenerator<SettledLine> {
  for await (const each of settled) {
    const { outcome } = each;
    if ("held" in each) lines.hold(outcome);
    const place = "held" in each ? undefined : lines.placeOf(outcome);
    if (place === undefined) {
      yield each;
      continue;
    }
    const bytes = new Uint8Array(place.lengthBytes);
    const found = bytes.subarray(0, await file.read(bytes, place.start));
    yield { outcome, held: [...writtenForms(found)].find((form) => isOf(outcome, form)) ?? found };
  }
}

/** What the journal says of lines: their checksums, and where the file has them. */
class SoughtLines {
  /** Where the found lines are. */
  readonly #lineOf = new Map<string, number>();
  readonly #places = new Map<number, FoundPlace>();
  /** Lines whose text is in the journal. */
  readonly #held = new Set<number>();
  /** Bytes of the file outside the searched lines. */
  strayBytes = 0;

  seek({ line, lineBytes, lineCrc32 }: OutcomeRecord): void {
    this.#lineOf.set(`${lineCrc32}:${lineBytes}`, line);
  }

  look({ bytes, ...place }: FoundPlace & { readonly bytes: Uint8Array }): void {
    let isBlank = true;
    for (const form of writtenForms(bytes)) {
      isBlank = false;
      const line = this.#lineOf.get(`${crc32(form)}:${form.byteLength}`);
      if (line === undefined || this.#places.has(line)) continue;
      this.#places.set(line, place);
      return;
    }
    if (!isBlank) this.strayBytes += place.lengthBytes;
  }

  hold({ line }: OutcomeRecord): void {
    this.#held.add(line);
  }

  placeOf({ line }: OutcomeRecord): FoundPlace | undefined {
    return this.#places.get(line);
  }

  isFound(line: number): boolean {
    return this.#places.has(line) || this.#held.has(line);
  }
}

interface ReadJournal {
  readonly replay: Replay;
  readonly lines: SoughtLines;
  readonly prices: readonly UsedPrice[];
  /** Number of the journal's last entry, whether it counts or not. */
  readonly lastSequence: number;
}

async function readJournal(
  { store }: Pick<EngineStorage, "store">,
  taskId: string,
  body: TaskBody,
): Promise<ReadJournal> {
  const replay = new Replay();
  const lines = new SoughtLines();
  const prices: UsedPrice[] = [];
  for await (const { sequence, records } of countingEntries(store, taskId, body)) {
    const step = readStep(records);
    replay.apply(sequence, step);
    prices.push(...step.prices);
  }
  for await (const { outcome } of settledLines(store, taskId, body)) lines.seek(outcome);
  let lastSequence = 0;
  for await (const { sequence } of store.journal(taskId)) lastSequence = sequence;
  return { replay, lines, prices, lastSequence };
}

async function readChange(disk: Disk, path: string): Promise<string | undefined> {
  if ((await disk.stat(path)) === undefined) return undefined;
  const file = await disk.open(path, "read");
  try {
    return await changeOf(file);
  } finally {
    await file.close();
  }
}
