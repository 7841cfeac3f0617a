/**
 * The lines of a run as objects that every worker can read: cut into shards, each in pieces of at most 4 MiB.
 *
 * A name follows from the run and the place of the piece, so uploading the same input again for the same run changes nothing.
 */
import type { DiskFile } from "../../disk.ts";
import type { Objects } from "../../store/objects/objects.ts";
import type { NewShard } from "./run_rows.ts";
import type { ShardId } from "./shard_rows.ts";

const PIECE_BYTES = 4 << 20;
const READ_BYTES = 1 << 20;
const LF = 0x0a;
const INPUTS = "runs";
const SHARD_LINES_MIN = 1_000;
const SHARD_LINES_MAX = 10_000;
/** More than one, so that workers end at about the same time, and one that arrives finds work. */
const SHARDS_A_WORKER = 4;

/** How many lines a shard of an input of `lines` has, 1,000 to 10,000: four shards a worker, if that fits. */
export function shardLines(lines: number, workers: number): number {
  const even = Math.ceil(lines / (SHARDS_A_WORKER * Math.max(1, workers)));
  return Math.min(SHARD_LINES_MAX, Math.max(SHARD_LINES_MIN, even));
}

/** Uploads a file in shards of `linesMax` lines; the last one may have fewer. Resolves with the shards, in order. Rejects as `put` does. */
export async function uploadShards(
  file: Pick<DiskFile, "read">,
  run: string,
  linesMax: number,
  objects: Pick<Objects, "put">,
): Promise<readonly NewShard[]> {
  const shards: NewShard[] = [];
  let firstLine = 1;
  let lines = 0;
  let pieces = 0;
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let isLineOpen = false;
  const put = async (): Promise<void> => {
    if (heldBytes === 0) return;
    await objects.put(pieceName({ run, index: shards.length }, pieces), Buffer.concat(held));
    [held, heldBytes, pieces] = [[], 0, pieces + 1];
  };
  const take = async (bytes: Uint8Array): Promise<void> => {
    if (heldBytes > 0 && heldBytes + bytes.byteLength > PIECE_BYTES) await put();
    held.push(bytes);
    heldBytes += bytes.byteLength;
  };
  const end = async (): Promise<void> => {
    await put();
    if (pieces > 0) shards.push({ firstLine, lines, pieces });
    [firstLine, lines, pieces] = [firstLine + lines, 0, 0];
  };
  for (let position = 0; ; ) {
    const chunk = Buffer.allocUnsafe(READ_BYTES);
    const length = await file.read(chunk, position);
    if (length === 0) break;
    position += length;
    isLineOpen = chunk[length - 1] !== LF;
    let from = 0;
    for (let at = chunk.indexOf(LF); at >= 0 && at < length; at = chunk.indexOf(LF, at + 1)) {
      lines += 1;
      if (lines < linesMax) continue;
      await take(chunk.subarray(from, at + 1));
      await end();
      from = at + 1;
    }
    if (from < length) await take(chunk.subarray(from, length));
  }
  if (isLineOpen) lines += 1; // the last line may have no end
  await end();
  return shards;
}

/** The bytes of a shard's lines, piece by piece. Throws when an object is missing. */
export async function* readShard(
  objects: Pick<Objects, "get">,
  { pieces, ...id }: ShardId & { readonly pieces: number },
): AsyncGenerator<Uint8Array> {
  for (let piece = 0; piece < pieces; piece += 1) {
    const name = pieceName(id, piece);
    const bytes = await objects.get(name, 0, PIECE_BYTES);
    if (bytes === undefined) throw new Error(`the input of a shard is missing: ${name}`);
    yield bytes;
  }
}

/** Removes the pieces of a shard. No error when they do not exist. */
export async function removeShardInput(
  objects: Pick<Objects, "remove">,
  { pieces, ...id }: ShardId & { readonly pieces: number },
): Promise<void> {
  for (let piece = 0; piece < pieces; piece += 1) await objects.remove(pieceName(id, piece));
}

/** Older objects belong to no run that is still being made: an upload takes less, and machines' clocks differ by less. */
const ORPHAN_AGE_MS = 24 * 60 * 60 * 1_000;

/**
 * Removes the inputs of runs that were never made, because their client ended before, or that were removed. `knownRuns` finds those that exist.
 * Rejects with the first error of either.
 */
export async function sweepInputs(
  objects: Pick<Objects, "list" | "remove">,
  knownRuns: (ids: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<void> {
  const old = new Map<string, string[]>();
  for await (const { name, ageMs } of objects.list(`${INPUTS}/`)) {
    const [, run = ""] = name.split("/");
    if (ageMs < ORPHAN_AGE_MS) continue;
    const names = old.get(run) ?? [];
    names.push(name);
    old.set(run, names);
  }
  const known = await knownRuns([...old.keys()]);
  for (const [run, names] of old) if (!known.has(run)) for (const name of names) await objects.remove(name);
}

function pieceName({ run, index }: ShardId, piece: number): string {
  return `${INPUTS}/${run}/${index}/${piece}`;
}
