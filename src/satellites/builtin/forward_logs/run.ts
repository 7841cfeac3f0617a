/**
 * One attempt of `forward-logs`: entries of a list or the lines of a file to a receiver of logs, in batches. Each format has a file.
 *
 *   entries -> batch -> sent -> taken: noted, the next one
 *                            -> some to be sent again: noted which, the attempt ends as refused
 *                            -> some refused for good: counted, the next one
 *                            -> failed: the attempt ends; the next one continues with this batch
 *
 * What was acknowledged is never sent again; a batch without a known result may arrive twice, and is recognised by its ids or its
 * times where the receiver does that (Elasticsearch, OpenSearch, Loki). Refused entries do not hold up the others; in the end they
 * fail the execution.
 *
 * Limits: 10,000 entries in a list, a batch of 1 MiB at a time (256 executions at once may each hold one), 4 executions to one
 * receiver at once, notes of the first 5 refused entries.
 */
import type { JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { fileView } from "../files/small_file.ts";
import { batchesOf } from "./batches.ts";
import type { LogConfig } from "./config.ts";
import { deliveryTo, type LogDelivery } from "./delivery.ts";
import type { LogInput } from "./input.ts";
import { type ForwardProgress, readProgress, withRejected, writeProgress } from "./reached.ts";
import { fileEntries, listEntries, type SourcedEntry } from "./source.ts";

type Call = SatelliteCall<LogInput, LogConfig>;

export async function run(call: Call): Promise<JsonObject> {
  const { config, notes, clock } = call;
  const delivery = deliveryTo(config, call);
  let progress = readProgress(notes, clock.wallMs());
  if (progress.entries === 0 && progress.again === null) await writeProgress(notes, progress);
  const source = await sourceOf(call, progress, delivery);
  try {
    for await (const batch of batchesOf(source.entries, delivery.bounds)) {
      call.signal.throwIfAborted();
      progress = await deliver(call, delivery, batch, progress);
      call.progress(progress.entries, source.total);
    }
  } finally {
    source.release();
  }
  if (progress.rejected > 0) throw rejectedError(progress);
  return { receiver: config.receiver, entries: progress.entries, batches: progress.batches };
}

interface Source {
  readonly entries: AsyncIterable<SourcedEntry> | Iterable<SourcedEntry>;
  /** Undefined where nobody has counted. */
  readonly total: number | undefined;
  release(): void;
}

async function sourceOf(call: Call, progress: ForwardProgress, { bounds }: LogDelivery): Promise<Source> {
  const { input: given, files, project } = call;
  const entryBounds = { messageBytesMax: bounds.messageBytes, wallMs: progress.wallMs };
  if (given.file_id === undefined) {
    const list = given.entries ?? [];
    const entries = listEntries(list, progress, entryBounds);
    return { entries, total: list.length, release: () => undefined };
  }
  const { id, bytes, items } = await fileView(call, given.file_id);
  const entries = fileEntries({ files, project, id, bytes }, progress, entryBounds);
  return { entries, total: items > 0 ? items : undefined, release: files.hold(id) };
}

/** The progress after the batch; throws where the batch has to be tried again. */
async function deliver(
  call: Call,
  delivery: LogDelivery,
  batch: readonly SourcedEntry[],
  before: ForwardProgress,
): Promise<ForwardProgress> {
  const wanted = before.again ?? batch.map((_, index) => index);
  const sent = wanted.flatMap((index) => {
    const one = batch[index];
    return one === undefined ? [] : [{ id: `${call.executionId}-${one.index}`, entry: one.entry }];
  });
  const { again, rejected } = await delivery.send(sent).catch((error: unknown) => {
    throw withPlace(error, before);
  });
  const inBatch = (index: number | undefined): number | undefined =>
    index === undefined ? undefined : wanted[index];
  const counted = withRejected(
    before,
    rejected.map(({ index, reason }) => {
      const place = inBatch(index);
      return place === undefined ? { reason } : { index: place, reason };
    }),
    batch[0]?.index ?? 0,
  );
  if (again.length > 0) {
    const left = again.flatMap((index) => inBatch(index) ?? []);
    await writeProgress(call.notes, { ...counted, again: left });
    const message = `the receiver had no room for ${left.length} of ${sent.length} entries`;
    throw new SatelliteError("refused", "entries_left", message);
  }
  const after: ForwardProgress = {
    ...counted,
    entries: before.entries + batch.length,
    offset: batch.at(-1)?.offset ?? before.offset,
    batches: before.batches + 1,
    again: null,
  };
  await writeProgress(call.notes, after);
  return after;
}

/** Says how far it came, since there is no output. */
function withPlace(error: unknown, { entries }: ForwardProgress): unknown {
  if (!(error instanceof SatelliteError) || entries === 0) return error;
  const { failure, code, message, retryAfterMs } = error;
  return new SatelliteError(failure, code, `${message}; the ${entries} entries before were taken`, {
    cause: error,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function rejectedError({ rejected, entries, reasons }: ForwardProgress): SatelliteError {
  const told = reasons.map(({ entry, reason }) =>
    entry === null ? reason : `entry ${entry + 1}: ${reason}`,
  );
  const more = rejected > reasons.length ? ", ..." : "";
  const message = `the receiver refused ${rejected} of ${entries} entries (${told.join(", ")}${more})`;
  return new SatelliteError("permanent", "entries_rejected", message);
}
