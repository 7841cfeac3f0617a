/**
 * Writes what holds a run to a small file in the data folder, for readers in other processes.
 *
 *   nothing held (no file) --held--> written a second later
 *   written --what holds the run changes--> written again, at most once a second
 *   written --a next try is due, or 15 s have passed--> checked again: other runs of a lane move its next try
 *   written --the run stops--> written once more with what it is left with
 *
 * What no longer holds the run stays in it, for traces. The file is a note, not a record: it is not synced, a full disk leaves it
 * unchanged, and after a kill it says what held the run at that time. Limits: 1 MiB, the last 256 holds that are over.
 */
import { join } from "node:path";
import type { Timer } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import { readWhole } from "../journal/line_bytes.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { Hold } from "./holds.ts";

const LOOK_MS = 1_000;
const LOOK_MS_MAX = 15_000;
const BYTES_MAX = 1024 * 1024;
const PAST_MAX = 256;
/** Times that differ by less are the same. */
export const SAME_MS = 1_000;
const VERSION = 1;

/** A hold that is over. */
export interface PastHold extends Pick<Hold, "reason" | "provider" | "model" | "message" | "since"> {
  /** When it was found to be over, ISO 8601. */
  readonly until: string;
}

/** What the note says. */
interface Noted {
  readonly holds: readonly Hold[];
  readonly past: readonly PastHold[];
}

const NOTHING_NOTED: Noted = { holds: [], past: [] };

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
  readonly #storage: Pick<EngineStorage, "clock" | "disk" | "dataDir">;
  readonly #path: string;
  readonly #holds: () => readonly Hold[];
  /** What the file says; undefined where it is not known. */
  #noted: Noted | undefined;
  /** What held the run at the last look. */
  #seen: readonly Hold[] = [];
  /** What is over and not in the file. */
  #over: PastHold[] = [];
  #timer: Timer | undefined;
  /** When the holds are checked again; monotonic, valid only with a timer. */
  #lookAtMs = 0;
  /** A change after the end of the run arms no timer, because that would keep the process alive. */
  #isClosed = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(
    storage: Pick<EngineStorage, "clock" | "disk" | "dataDir">,
    { taskId, isResumed, holds }: NotedRun,
  ) {
    this.#storage = storage;
    this.#path = holdNotePath(storage, taskId);
    this.#holds = holds;
    this.#noted = isResumed ? undefined : NOTHING_NOTED;
  }

  /** What holds the run may have changed. */
  look(holds: readonly Hold[]): void {
    this.#see(holds);
    if (holds.length + this.#over.length === 0 && this.#noted?.holds.length === 0) return;
    this.#lookAfter(LOOK_MS);
  }

  #see(holds: readonly Hold[]): void {
    const wallMs = this.#storage.clock.wallMs();
    const isLong = ({ since }: Hold): boolean => wallMs - Date.parse(since) >= LOOK_MS;
    for (const hold of this.#seen)
      if (isLong(hold) && !holds.some((other) => isOfSame(other, hold)))
        this.#over.push(pastHold(hold, new Date(wallMs).toISOString()));
    this.#seen = holds;
  }

  #lookAfter(delayMs: number): void {
    const { clock } = this.#storage;
    const atMs = clock.nowMs() + delayMs;
    if (this.#isClosed || (this.#timer !== undefined && this.#lookAtMs <= atMs)) return;
    this.#timer?.cancel();
    this.#lookAtMs = atMs;
    this.#timer = clock.timer(delayMs, () => {
      this.#timer = undefined;
      const holds = this.#holds();
      this.#note(holds);
      if (holds.length > 0) this.#lookAfter(stableMs(holds, clock.wallMs()));
    });
  }

  /** Resolves when the note says what the run is left with. */
  async close(holds: readonly Hold[]): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#note(holds);
    await this.#writing;
  }

  #note(holds: readonly Hold[]): void {
    this.#see(holds);
    const over = this.#over.splice(0).filter((hold) => !holds.some((other) => isSame(other, hold))); // as the run stops
    const now = new Date(this.#storage.clock.wallMs()).toISOString();
    this.#writing = this.#writing
      .then(async () => {
        const before = this.#noted ?? (await readNote(this.#storage.disk, this.#path));
        const added =
          this.#noted === undefined ? [...leftOf(before.holds, [...over, ...holds], now), ...over] : over;
        const past = before.past.filter((hold) => ![...added, ...holds].some((other) => isSame(other, hold)));
        const next = { holds, past: [...past, ...added].slice(-PAST_MAX) };
        const text = textOf(next);
        if (this.#noted === undefined || text !== textOf(before)) await this.#put(text);
        this.#noted = next;
      })
      .catch(() => {
        this.#over.unshift(...over); // a full disk, perhaps: it is written at the next look
        this.#noted = undefined;
      });
  }

  async #put(text: string): Promise<void> {
    const { disk } = this.#storage;
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

/** What holds a run as its note says, and what has held it; empty without a note that can be read. */
export function readHoldNote(
  storage: Pick<EngineStorage, "disk" | "dataDir">,
  taskId: string,
): Promise<Noted> {
  return readNote(storage.disk, holdNotePath(storage, taskId));
}

async function readNote(disk: Disk, path: string): Promise<Noted> {
  try {
    const file = await disk.open(path, "read");
    try {
      const bytes = await readWhole(file, 0, Math.min(BYTES_MAX, await file.sizeBytes()));
      const note = JSON.parse(Buffer.from(bytes).toString()) as Partial<Noted> & {
        readonly version?: number;
      }; // as written below
      if (note.version !== VERSION) return NOTHING_NOTED;
      return { holds: note.holds ?? [], past: note.past ?? [] };
    } finally {
      await file.close();
    }
  } catch {
    return NOTHING_NOTED; // absent, or half written: the next one is written within a second
  }
}

/** The note of a task. */
export function holdNotePath(
  { dataDir }: Pick<Pick<EngineStorage, "clock" | "disk" | "dataDir">, "dataDir">,
  taskId: string,
): string {
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
function textOf({ holds, past }: Noted): string {
  if (holds.length + past.length === 0) return "";
  return `${JSON.stringify({ version: VERSION, holds, past })}\n`;
}

/** A hold goes on while its reason, provider and model do. */
function isOfSame(one: Hold | PastHold, other: Hold | PastHold): boolean {
  return one.reason === other.reason && one.provider === other.provider && one.model === other.model;
}

/** Also where the run was called again meanwhile. */
function isSame(one: Hold | PastHold, other: Hold | PastHold): boolean {
  return isOfSame(one, other) && isSameTime(one.since, other.since);
}

/** Processes measure the time since an earlier one did by different clocks. */
function isSameTime(one: string, other: string): boolean {
  return Math.abs(Date.parse(one) - Date.parse(other)) < SAME_MS;
}

/** What went on over further calls, as one hold from its beginning and with its last message. */
export function joined({ past, holds }: Noted): Noted {
  const all: (Hold | PastHold)[] = [];
  for (const hold of [...past, ...holds]) {
    const at = all.findLastIndex((one) => isOfSame(one, hold));
    const before = all[at];
    const isNext = before !== undefined && "until" in before && isSameTime(before.until, hold.since);
    if (isNext) all[at] = { ...hold, since: before.since };
    else all.push(hold);
  }
  const isPast = (hold: Hold | PastHold): hold is PastHold => "until" in hold;
  return { past: all.filter(isPast), holds: all.filter((hold): hold is Hold => !isPast(hold)) };
}

/** What an earlier process was held by until this one was held, or not any more. */
function leftOf(before: readonly Hold[], found: readonly (Hold | PastHold)[], now: string): PastHold[] {
  return before.flatMap((hold) => {
    const same = found.find((other) => isOfSame(other, hold));
    return same !== undefined && isSameTime(same.since, hold.since)
      ? []
      : [pastHold(hold, same?.since ?? now)];
  });
}

function pastHold({ reason, provider, model, message, since }: Hold, until: string): PastHold {
  return {
    ...{ reason, message, since, until },
    ...(provider === undefined ? {} : { provider }),
    ...(model === undefined ? {} : { model }),
  };
}
