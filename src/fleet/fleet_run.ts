/**
 * A file of lines over the fleet, as its client sees it.
 *
 *   keys checked -> input uploaded -> run and shards made -> answers appended as shards are done, in order -> over
 *                                                         -> paused     (what is left is held; the same call continues)
 *                                                         -> stopped    (the client left: the fleet continues, the same call takes the answers)
 *
 * Every step may be repeated, so after a kill of the client the same call continues (`shards/run_mark.ts`). The folder of the mark is locked, so
 * that no two clients write one output.
 */
import { randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import type { Clock } from "../clock.ts";
import { type Disk, type DiskFile, systemDisk } from "../disk.ts";
import { checkKeys } from "../engine/files/key_check.ts";
import type { Progress, Summary } from "../engine/items/progress.ts";
import type { RunOptions } from "../engine/runs/run_options.ts";
import { type ErrorCode, PerigeeError } from "../errors.ts";
import { nanoOf } from "../price/nano.ts";
import { inlineScanner } from "../shard/measurer.ts";
import { lockDataDir } from "../store/folder/data_dir.ts";
import type { Objects } from "../store/objects/objects.ts";
import { openObjects } from "../store/objects/open_objects.ts";
import { loadSqlite } from "../store/sqlite_database.ts";
import { FleetDatabase } from "./fleet_database.ts";
import { claimObjects } from "./objects_owner.ts";
import { partitionRoot } from "./partition_files.ts";
import { attemptsOf, joinedProgress, joinedSummary } from "./shards/joined_summary.ts";
import { type RunMark, readMark, writeMark } from "./shards/run_mark.ts";
import { RunRows, type SeenShard } from "./shards/run_rows.ts";
import { shardLines, uploadShards } from "./shards/shard_input.ts";
import { TakenAnswers } from "./shards/taken_answers.ts";

/** What a run over the fleet takes. */
export interface FleetRunOptions {
  /** `postgres://...` */
  readonly store: string;
  /** The address of the workers' objects. Default: the database. */
  readonly objects?: string | undefined;
  /** A file of JSON lines. */
  readonly input: string;
  readonly out: string;
  /** A folder where the client keeps its mark. */
  readonly dataDir: string;
  /** Options of the run of each shard; JSON must be able to hold them. */
  readonly terms: Omit<RunOptions, "signal" | "maxCostUsd">;
  readonly maxCostUsd?: number | undefined;
  readonly clock: Clock;
  /** Aborting it ends the call with `stopped` and leaves the run to the fleet. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

const LOOK_MS = 500;
const MINUTE_MS = 60_000;

/**
 * Resolves with the summary of all shards. Throws `duplicate_key`, `input_changed`, `output_changed`, `output_unwritable`, `conflict` for other
 * options than the run began with, `not_found` for answers that the store no longer has, `data_dir_in_use` while another client writes the output,
 * and the error with which a shard failed.
 */
export async function runOnFleet(options: FleetRunOptions): Promise<Summary> {
  const lock = lockDataDir(await loadSqlite(), options.dataDir);
  try {
    return await runLocked(options);
  } finally {
    lock.release();
  }
}

async function runLocked(options: FleetRunOptions): Promise<Summary> {
  const { clock, store } = options;
  const disk = systemDisk;
  const begun = await beginRun(options, disk);
  if (begun.mark.summary !== undefined) return { ...begun.mark.summary, requests_sent: 0, elapsed_ms: 0 };
  const objects = await openObjects({ url: options.objects ?? store, clock });
  const answers = new TakenAnswers({ url: store, objects, clock, rootOf: partitionRoot });
  let database: FleetDatabase | undefined;
  let output: DiskFile | undefined;
  try {
    database = await FleetDatabase.open(store, clock);
    const rows = new RunRows(database.query);
    await claimObjects(objects, { url: options.objects ?? store, database });
    const attemptsBefore = await makeRun(rows, objects, options, begun.mark);
    output = await disk.open(options.out, "write");
    return await new ClientRun(
      options,
      { disk, rows, answers, output },
      { ...begun, attemptsBefore },
    ).finished();
  } finally {
    await output?.close();
    await answers.close();
    database?.close();
    await objects.close();
  }
}

interface BegunRun {
  readonly mark: RunMark;
  readonly markPath: string;
  readonly startedMs: number;
}

/** Checks the input as a run on one machine does; then reads the mark of an earlier call, or writes a new one. */
async function beginRun(options: FleetRunOptions, disk: Disk): Promise<BegunRun> {
  const { input, out, dataDir, clock } = options;
  const startedMs = clock.nowMs();
  const markPath = join(dataDir, "fleet.json");
  const found = await readMark(disk, markPath);
  const terms = JSON.stringify(options.terms);
  const outBytes = (await disk.stat(out))?.sizeBytes ?? 0;
  const sizeBytes = (await disk.stat(input))?.sizeBytes ?? 0;
  const file = await disk.open(input, "read");
  try {
    const checked = await checkKeys(inlineScanner, { file, identity: { sizeBytes } });
    if (found !== undefined) {
      refuseOther(found, { input: checked.inputChecksum, options: terms, outBytes, out, name: input });
      return { mark: found, markPath, startedMs };
    }
    if (outBytes > 0)
      throw new PerigeeError(
        "output_unwritable",
        `${out} already holds ${outBytes} bytes that this run did not write: use another output, or move it away`,
      );
    const mark: RunMark = {
      ...{ id: randomUUID(), input: checked.inputChecksum, options: terms },
      ...{ lines: checked.lines, appended: 0, outputBytes: 0 },
    };
    await writeMark(disk, markPath, mark);
    return { mark, markPath, startedMs };
  } finally {
    await file.close();
  }
}

interface SeenFiles extends Pick<RunMark, "input" | "options"> {
  readonly outBytes: number;
  readonly out: string;
  readonly name: string;
}

function refuseOther(mark: RunMark, { input, options, outBytes, out, name }: SeenFiles): void {
  if (mark.input !== input)
    throw new PerigeeError(
      "input_changed",
      `${name} is not the input that the run of ${out} began with: use that input again, or another output`,
    );
  if (mark.options !== options)
    throw new PerigeeError(
      "conflict",
      `the run of ${out} began with other options (${mark.options}): use them again, or another output`,
    );
  if (outBytes < mark.outputBytes)
    throw new PerigeeError(
      "output_changed",
      `${out} has ${outBytes} bytes, and this run has written ${mark.outputBytes}: restore it, or use another output`,
    );
}

/** Makes the run. Where an earlier call has made it, sets the cap and releases held shards instead. Resolves with the attempts that were made before. */
async function makeRun(
  rows: RunRows,
  objects: Objects,
  { input, out, terms, maxCostUsd }: FleetRunOptions,
  { id, lines, appended, ...mark }: RunMark,
): Promise<number> {
  const capNano = maxCostUsd === undefined ? undefined : nanoOf(maxCostUsd);
  if (await rows.has(id)) {
    const attempts = attemptsOf((await rows.shards(id)).map(({ counts }) => counts));
    await rows.setCap(id, capNano);
    await rows.release(id);
    return attempts;
  }
  if (appended > 0)
    throw new PerigeeError(
      "not_found",
      `the run of ${out} is not in the store any more, and ${appended} of its shards were taken: use another output to begin anew`,
    );
  const file = await systemDisk.open(input, "read");
  try {
    const shards = await uploadShards(file, id, shardLines(lines, await rows.partitions()), objects);
    if (shards.reduce((sum, shard) => sum + shard.lines, 0) !== lines)
      throw new PerigeeError("input_changed", `${input} changed while it was uploaded: run it again`);
    const slaMs = terms.sla === undefined ? undefined : terms.sla * MINUTE_MS;
    await rows.make(
      { id, name: resolve(out), options: mark.options, input: mark.input, capNano, slaMs },
      shards,
    );
    return 0;
  } finally {
    await file.close();
  }
}

interface ClientPlace {
  readonly disk: Disk;
  readonly rows: RunRows;
  readonly answers: TakenAnswers;
  readonly output: DiskFile;
}

class ClientRun {
  readonly #options: FleetRunOptions;
  readonly #place: ClientPlace;
  readonly #begun: BegunRun & { readonly attemptsBefore: number };
  #mark: RunMark;
  /** Items that had ended when held shards were last released. */
  #settledBefore = -1;

  constructor(
    options: FleetRunOptions,
    place: ClientPlace,
    begun: BegunRun & { readonly attemptsBefore: number },
  ) {
    this.#options = options;
    this.#place = place;
    this.#begun = begun;
    this.#mark = begun.mark;
  }

  async finished(): Promise<Summary> {
    const { clock, signal, onProgress } = this.#options;
    const { rows } = this.#place;
    for (;;) {
      const shards = await this.#shards();
      const progress = joinedProgress(
        shards.map(({ counts }) => counts),
        this.#mark.lines,
      );
      onProgress(progress);
      await this.#append(shards);
      refuseFailed(shards);
      if (shards.every(({ state }) => state === "done")) return this.#over(shards);
      const isHeld = !shards.some(({ state }) => state === "waiting" || state === "claimed");
      if (isHeld && (!isShort(shards) || progress.settled === this.#settledBefore))
        return this.#summary(shards, { status: "paused", ...this.#unwritten(shards) });
      if (isHeld) {
        this.#settledBefore = progress.settled;
        await rows.release(this.#mark.id); // what others did not spend
      }
      if (signal.aborted) return this.#summary(shards, { status: "stopped", reason: "interrupted" });
      await clock.sleep(LOOK_MS, { signal }).catch(() => undefined); // and then once more
    }
  }

  /** All of them. Throws `not_found` when some were removed: nobody took their answers for 30 days. */
  async #shards(): Promise<readonly SeenShard[]> {
    const shards = await this.#place.rows.shards(this.#mark.id);
    if (shards.reduce((sum, { lines }) => sum + lines, 0) === this.#mark.lines) return shards;
    throw new PerigeeError(
      "not_found",
      `answers of ${this.#options.out} are not in the store any more: use another output to begin anew`,
    );
  }

  async #append(shards: readonly SeenShard[]): Promise<void> {
    const { disk, answers, output } = this.#place;
    for (let next = shards[this.#mark.appended]; next?.state === "done"; next = shards[this.#mark.appended]) {
      const outputBytes = await answers.append(next, output, this.#mark.outputBytes);
      this.#mark = { ...this.#mark, appended: this.#mark.appended + 1, outputBytes };
      await writeMark(disk, this.#begun.markPath, this.#mark);
    }
  }

  /** Why the output lacks answers of items that have ended; empty when it has all. */
  #unwritten(shards: readonly SeenShard[]): { readonly reason?: string } {
    const ends = shards.slice(this.#mark.appended).map(({ counts }) => JSON.parse(counts) as Summary); // as its worker wrote it
    const count = ends.reduce((sum, { items, counts }) => sum + items - counts.submitted, 0);
    if (count === 0) return {};
    const answers = count === 1 ? "1 answer is" : `${count} answers are`;
    return {
      reason: `${answers} not in ${this.#options.out} yet, but in the store: a shard is written when all of its lines have ended`,
    };
  }

  async #over(shards: readonly SeenShard[]): Promise<Summary> {
    const { disk, rows } = this.#place;
    const summary = this.#summary(shards, { status: "completed" });
    await writeMark(disk, this.#begun.markPath, { ...this.#mark, summary });
    await rows.taken(this.#mark.id);
    return summary;
  }

  #summary(
    shards: readonly SeenShard[],
    end: { readonly status: Summary["status"] & OwnStatus; readonly reason?: string },
  ): Summary {
    const { clock, out } = this.#options;
    const ended = shards.filter(({ state }) => state === "done" || state === "held");
    const open = shards.filter((shard) => !ended.includes(shard));
    const summary = joinedSummary(
      ended.map(({ counts }) => JSON.parse(counts) as Summary), // as its worker wrote it
      {
        ...end,
        taskId: this.#mark.id,
        output: out,
        elapsedMs: Math.round(clock.nowMs() - this.#begun.startedMs),
        attemptsBefore: this.#begun.attemptsBefore,
      },
    );
    const left = open.reduce((sum, { lines }) => sum + lines, 0);
    const counts = { ...summary.counts, submitted: summary.counts.submitted + left };
    return { ...summary, items: summary.items + left, counts };
  }
}

type OwnStatus = "completed" | "paused" | "stopped";

function refuseFailed(shards: readonly SeenShard[]): void {
  const failed = shards.find(({ state }) => state === "failed");
  if (failed === undefined) return;
  const { error } = JSON.parse(failed.counts) as { error: { code: ErrorCode; message: string } }; // as its worker wrote it
  throw new PerigeeError(error.code, `lines from ${failed.firstLine} on: ${error.message}`);
}

/** Whether all that is held waits for money. */
function isShort(shards: readonly SeenShard[]): boolean {
  const held = shards
    .filter(({ state }) => state === "held")
    .flatMap(({ counts }) => (JSON.parse(counts) as Summary).held); // as its worker wrote it
  return held.length > 0 && held.every(({ reason }) => reason === "cap_reached");
}
