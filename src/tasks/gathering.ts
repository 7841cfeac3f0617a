/**
 * Gathering: small tasks of one project and one sla share a lot, so that a thousand posts a second are a few runs.
 *
 *   gathering (lines are given out, their records commit) -> closing (no more lines) -> file written and synced
 *     -> sealed (stored) -> handed to the lots
 *   closing -> closing: a disk that failed is told, and tried again a minute later
 *
 * A line whose record did not commit stays blank. The texts stay in the records of their tasks: a lot that a crash has
 * kept from being sealed is made again from them.
 *
 * A lot closes at 4,096 lines or 4 MiB, a quarter of a second after its first line, or, when its items want to run at
 * once, with the batch that opened it as long as few such lots are on their way.
 *
 * An accepted item's deadline is that of the first item in its lot, so up to a quarter of a second early.
 */
import type { Timer } from "../clock.ts";
import type { EngineParts } from "../engine/parts.ts";
import { newId } from "../work/new_id.ts";
import type { Lot } from "./lot.ts";
import { type LotRecord, lotToRecord } from "./lot_record.ts";
import type { Lots } from "./lots.ts";

const LOT_LINES_MAX = 4_096;
const LOT_BYTES_MAX = 4 * 1024 * 1024;
const GATHER_MS = 250;
/** Lots without sla of one project on their way to their run, beyond which the next one gathers. */
const OPENING_MAX = 4;

/** A lot that takes lines. */
export interface GatheringLot {
  readonly lot: Lot;
  /** Its lines by number minus 1; holes are blank. */
  readonly texts: (string | undefined)[];
  lines: number;
  bytes: number;
  /** Commits under way with lines of it. */
  pending: number;
  /** Whether the store knows of it for sure. */
  isStored: boolean;
  isClosing: boolean;
  timer: Timer | undefined;
}

/** Lines given to one task. */
export interface GivenLines {
  readonly gathering: GatheringLot;
  readonly firstLine: number;
}

export class Gathering {
  readonly #parts: EngineParts;
  readonly #lots: Lots;
  readonly #gathering = new Map<string, GatheringLot>();
  /** Lots without sla, by project, that are not yet run. */
  readonly #opening = new Map<string, number>();

  constructor(parts: EngineParts, lots: Lots) {
    this.#parts = parts;
    this.#lots = lots;
  }

  /** `count` lines in a row; the caller fills `texts` when they are durable and calls `committed` in any case. */
  take(project: string, slaMinutes: number | null, count: number, bytes: number): GivenLines {
    const key = JSON.stringify([project, slaMinutes]);
    let gathering = this.#gathering.get(key);
    if (
      gathering !== undefined &&
      (gathering.lines + count > LOT_LINES_MAX || gathering.bytes + bytes > LOT_BYTES_MAX)
    ) {
      this.#close(key, gathering);
      gathering = undefined;
    }
    gathering ??= this.#openLot(key, project, slaMinutes);
    const firstLine = gathering.lines + 1;
    gathering.lines += count;
    gathering.bytes += bytes;
    gathering.pending += 1;
    return { gathering, firstLine };
  }

  /** The record of the lot, while no commit with it has ended well: the caller commits it with the task's. */
  recordToStore(gathering: GatheringLot): LotRecord | undefined {
    return gathering.isStored ? undefined : gathering.lot.record;
  }

  /** A commit with its lines has ended, `texts` are in place. */
  committed(gathering: GatheringLot, isDurable: boolean): void {
    gathering.pending -= 1;
    if (isDurable) gathering.isStored = true;
    const { project, slaMinutes } = gathering.lot.record;
    const key = JSON.stringify([project, slaMinutes]);
    const isUrgent = slaMinutes === null && (this.#opening.get(project) ?? 0) < OPENING_MAX;
    if (isUrgent && gathering.pending === 0 && !gathering.isClosing) this.#close(key, gathering);
    else if (gathering.isClosing && gathering.pending === 0) void this.#seal(gathering);
  }

  /** Seals all that is open, for a service that ends. */
  closeAll(): void {
    for (const [key, gathering] of [...this.#gathering]) this.#close(key, gathering);
  }

  /** Writes a lot that an earlier process has not sealed; `texts` are the lines of its committed tasks. */
  async restore(lot: Lot, texts: (string | undefined)[]): Promise<void> {
    await this.#write(lot, texts);
    this.#lots.sealed(lot);
  }

  #openLot(key: string, project: string, slaMinutes: number | null): GatheringLot {
    const acceptedAt = this.#parts.clock.moment();
    const record: LotRecord = {
      id: newId(),
      project,
      slaMinutes,
      acceptedWallMs: acceptedAt.wallMs,
      acceptedAt,
      isSealed: false,
      lines: 0,
      items: 0,
      rateCard: this.#lots.cards.current,
      volumeTokens: 0, // as one small task: the volume of others is not its own
      itemLines: [],
      itemOffsets: [],
    };
    const lot = this.#lots.add(record);
    const gathering: GatheringLot = {
      lot,
      texts: [],
      lines: 0,
      bytes: 0,
      pending: 0,
      isStored: false,
      isClosing: false,
      timer: undefined,
    };
    gathering.timer = this.#parts.clock.timer(GATHER_MS, () => this.#close(key, gathering));
    this.#gathering.set(key, gathering);
    return gathering;
  }

  #close(key: string, gathering: GatheringLot): void {
    if (gathering.isClosing) return;
    gathering.isClosing = true;
    gathering.timer?.cancel();
    if (this.#gathering.get(key) === gathering) this.#gathering.delete(key);
    const { project, slaMinutes } = gathering.lot.record;
    if (slaMinutes === null) {
      this.#opening.set(project, (this.#opening.get(project) ?? 0) + 1);
      const ended = (): void => this.#opened(project);
      gathering.lot.waited.then(ended, ended);
    }
    if (gathering.pending === 0) void this.#seal(gathering);
  }

  #opened(project: string): void {
    const opening = (this.#opening.get(project) ?? 1) - 1;
    if (opening > 0) this.#opening.set(project, opening);
    else this.#opening.delete(project);
    const key = JSON.stringify([project, null]);
    const gathering = this.#gathering.get(key);
    if (gathering !== undefined && gathering.pending === 0) this.#close(key, gathering);
  }

  async #seal(gathering: GatheringLot): Promise<void> {
    const { lot, texts } = gathering;
    if (lot.members.length === 0) {
      this.#lots.drop(lot); // no task of it became durable; a start finds it empty
      lot.endWait();
      return;
    }
    try {
      await this.#write(lot, texts);
      this.#lots.sealed(lot);
    } catch (error) {
      lot.endWait(); // the tasks are durable: whoever waits may ask again, and a crash loses nothing
      this.#lots.tryAgain(lot, error, () => void this.#seal(gathering));
    }
  }

  async #write(lot: Lot, texts: readonly (string | undefined)[]): Promise<void> {
    const { disk, room, store } = this.#parts;
    const lines = Array.from(texts, (text) => `${text ?? ""}\n`);
    const bytes = Buffer.from(lines.join(""));
    await room.waitFor(async () => {
      const file = await disk.open(lot.path, "write");
      try {
        await file.truncate(0);
        await file.write(bytes, 0);
        await file.sync();
      } finally {
        await file.close();
      }
    });
    const items = texts.reduce((count, text) => count + (text === undefined ? 0 : 1), 0);
    const members = lot.members.map(({ taskId, firstLine, lines: count }) => ({
      taskId,
      firstLine,
      lines: count,
    }));
    const { estimatedUsd } = lot;
    const sealed: LotRecord = {
      ...lot.record,
      isSealed: true,
      lines: lines.length,
      items,
      bytes: bytes.byteLength,
      works: lot.works,
      ...(estimatedUsd > 0 ? { estimatedUsd } : {}),
    };
    await room.waitFor(() => store.change([{ kind: "put", record: lotToRecord({ ...sealed, members }) }]));
    lot.record = sealed; // it has its members itself
  }
}
