/**
 * Writes what holds a run to a small file in the data folder, for readers in other processes.
 *
 *   nothing held (no file) --held--> written a second later
 *   written --what holds the run changes--> written again, at most once a second
 *   written --a next try is due, or 15 s have passed--> checked again: other runs of a lane move its next try
 *   written --nothing held--> removed
 *   written --the run stops--> written once more with what it is left with
 *
 * The file is a note, not a record: it is not synced, a full disk leaves it unchanged, and after a kill it says what held the
 * run at that time. Limit: 1 MiB.
 */
import { join } from "node:path";
import type { Clock, Timer } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import { readWhole } from "../journal/line_bytes.ts";
import type { Hold } from "./holds.ts";

const LOOK_MS = 1_000;
const LOOK_MS_MAX = 15_000;
const BYTES_MAX = 1024 * 1024;
const VERSION = 1;

interface HoldNoteParts {
  readonly clock: Clock;
  readonly disk: Disk;
  readonly dataDir: string;
}

/** The run that the note is about. */
interface NotedRun {
  readonly taskId: string;
  /** An earlier call may have left a note. */
  readonly isResumed: boolean;
  /** What holds it now. */
  readonly holds: () => readonly Hold[];
}

/** One per run at work; close it when the run is over. */
export class HoldNote {
  readonly #parts: HoldNoteParts;
  readonly #path: string;
  readonly #holds: () => readonly Hold[];
  /** The last written text; empty for no file. */
  #written: string;
  #timer: Timer | undefined;
  /** When the holds are checked again; monotonic, valid only with a timer. */
  #lookAtMs = 0;
  /** A change after the end of the run arms no timer, because that would keep the process alive. */
  #isClosed = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: HoldNoteParts, { taskId, isResumed, holds }: NotedRun) {
    this.#parts = parts;
    this.#path = holdNotePath(parts, taskId);
    this.#holds = holds;
    this.#written = isResumed ? "unknown" : "";
  }

  /** What holds the run may have changed. */
  look(isHeld: boolean): void {
    if (!isHeld && this.#written === "") return;
    this.#lookAfter(LOOK_MS);
  }

  #lookAfter(delayMs: number): void {
    const { clock } = this.#parts;
    const atMs = clock.nowMs() + delayMs;
    if (this.#isClosed || (this.#timer !== undefined && this.#lookAtMs <= atMs)) return;
    this.#timer?.cancel();
    this.#lookAtMs = atMs;
    this.#timer = clock.timer(delayMs, () => {
      this.#timer = undefined;
      const holds = this.#holds();
      this.#write(textOf(holds));
      if (holds.length > 0) this.#lookAfter(stableMs(holds, clock.wallMs()));
    });
  }

  /** Resolves when the note says what the run is left with; without holds, when nothing writes it any more. */
  async close(holds: readonly Hold[] | undefined): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (holds !== undefined) this.#write(textOf(holds));
    await this.#writing;
  }

  #write(text: string): void {
    if (text === this.#written) return;
    this.#written = text;
    this.#writing = this.#writing
      .then(() => this.#put(text))
      .catch(() => {
        this.#written = "unknown"; // a full disk, perhaps: it is written at the next look
      });
  }

  async #put(text: string): Promise<void> {
    const { disk } = this.#parts;
    if (text === "") return disk.remove(this.#path);
    const file = await disk.open(this.#path, "write");
    try {
      const bytes = Buffer.from(text);
      await file.write(bytes, 0);
      await file.truncate(bytes.byteLength);
    } finally {
      await file.close();
    }
  }
}

/** What holds a run as its note says; empty without a note that can be read. */
export async function readHoldNote(
  parts: Pick<HoldNoteParts, "disk" | "dataDir">,
  taskId: string,
): Promise<readonly Hold[]> {
  try {
    const file = await parts.disk.open(holdNotePath(parts, taskId), "read");
    try {
      const bytes = await readWhole(file, 0, Math.min(BYTES_MAX, await file.sizeBytes()));
      const note = JSON.parse(Buffer.from(bytes).toString()) as {
        readonly version?: number;
        readonly holds?: readonly Hold[]; // as written below
      };
      return note.version === VERSION ? (note.holds ?? []) : [];
    } finally {
      await file.close();
    }
  } catch {
    return []; // absent, or half written: the next one is written within a second
  }
}

/** The note of a task. */
export function holdNotePath({ dataDir }: Pick<HoldNoteParts, "dataDir">, taskId: string): string {
  return join(dataDir, "tasks", `${taskId}.held.json`);
}

/** Milliseconds for which the note stays true if nothing else happens: until the first next try, 1 s to 15 s. */
function stableMs(holds: readonly Hold[], wallMs: number): number {
  let delayMs = LOOK_MS_MAX;
  for (const { next_try } of holds)
    if (next_try !== null) delayMs = Math.min(delayMs, Date.parse(next_try) - wallMs);
  return Math.max(LOOK_MS, delayMs);
}

/** Empty without any. */
function textOf(holds: readonly Hold[]): string {
  if (holds.length === 0) return "";
  return `${JSON.stringify({ version: VERSION, holds })}\n`;
}
