/**
 * What a person does to batches by hand, beside the runs that they belong to: cancel one at its provider, or say which one is ours.
 *
 * A provider is asked only with the key and at the address that the batch was made with.
 */
import { PerigeeError } from "../../errors.ts";
import type {
  BatchFailure,
  RemoteBatch,
  RemoteKind,
  RemoteWire,
} from "../../providers/batches/batch_wire.ts";
import { parseModelId } from "../../work/request.ts";
import { type BatchCalls, lostFailure } from "./batch_calls.ts";
import { type BatchRecord, keyPrintOf } from "./batch_record.ts";
import { isSure } from "./batch_search.ts";

/** How providers are asked. */
export interface BatchCare {
  readonly calls: Pick<BatchCalls, "send">;
  readonly signal: AbortSignal;
  /** The wire of a provider for batches of a kind, as it is configured now; undefined where it has none. */
  readonly wireOf: (provider: string, kind: RemoteKind) => RemoteWire | undefined;
}

/** Whether a batch may be asked for with what is configured now. */
function hasKeyOf({ keyPrint }: BatchRecord, wire: RemoteWire | undefined): wire is RemoteWire {
  return wire !== undefined && keyPrintOf(wire.settings) === keyPrint;
}

/** The name of the provider of a batch. */
export function providerOfBatch({ model }: Pick<BatchRecord, "model">): string {
  return parseModelId(model)?.provider ?? model;
}

/**
 * Asks the provider to cancel a batch; resolves with what it shows then. What the batch has finished is collected by its run, which sends
 * the rest another way. Throws `not_ready` for one without an id, `forbidden` if it was made with another key, `conflict` where the
 * provider cannot cancel, or refuses.
 */
export async function cancelBatch(record: BatchRecord, care: BatchCare): Promise<RemoteBatch> {
  const { batchId, tag } = record;
  const provider = providerOfBatch(record);
  const wire = care.wireOf(provider, record.kind ?? "batch");
  if (batchId === undefined)
    throw new PerigeeError(
      "not_ready",
      `batch ${tag} of ${provider} has no id yet (${record.state}): its run finds or creates it when it is called again`,
    );
  if (!hasKeyOf(record, wire)) throw otherKey(record, batchId);
  const request = wire.cancel(batchId);
  if (request === undefined) throw new PerigeeError("conflict", `${provider} cannot cancel batches`);
  const answer = await care.calls.send(request, care.signal);
  const read = answer.ok ? wire.read(answer, "other") : lostFailure(answer);
  if (read.ok) return read.batch;
  const now = await batchAt(wire, batchId, care);
  if (now.ok && (now.batch.end !== undefined || now.batch.isCancelling)) return now.batch;
  throw refusal(`batch ${batchId} of ${provider} could not be cancelled`, read);
}

/**
 * The record that a batch at a provider belongs to, as it is once it has its id: of those without one that were, or may have been, sent
 * to the provider. Throws `not_found` if the provider does not know the batch, or no record fits it; `conflict` if it has a record
 * already, or several fit.
 */
export async function adoptBatch(
  batchId: string,
  records: readonly BatchRecord[],
  care: BatchCare,
): Promise<BatchRecord> {
  const known = records.find((record) => record.batchId === batchId);
  if (known !== undefined)
    throw new PerigeeError("conflict", `batch ${batchId} has a record (${known.tag}, ${known.state})`);
  const open = records.filter(({ batchId: id, state }) => id === undefined && state !== "spooled");
  if (open.length === 0)
    throw new PerigeeError("not_found", "no submission of this data folder waits for the id of its batch");
  const fitting: BatchRecord[] = [];
  const reasons: string[] = [];
  for (const record of open) {
    const wire = care.wireOf(providerOfBatch(record), record.kind ?? "batch");
    if (!hasKeyOf(record, wire)) {
      reasons.push(otherKey(record, record.tag).message);
      continue;
    }
    const found = await batchAt(wire, batchId, care);
    if (!found.ok) reasons.push(`${wire.settings.name} does not show it: ${found.message}`);
    else if (fits(found.batch, record, wire)) fitting.push(adopted(found.batch, record));
    else reasons.push(`it is not ${record.tag} (${record.items} items for ${record.model})`);
  }
  const [first, ...others] = fitting;
  if (first === undefined)
    throw new PerigeeError("not_found", `batch ${batchId}: ${[...new Set(reasons)].join("; ")}`);
  if (others.length > 0)
    throw new PerigeeError(
      "conflict",
      `batch ${batchId} fits ${fitting.map(({ tag }) => tag).join(", ")}: their runs tell which is whose once it has ended`,
    );
  return first;
}

async function batchAt(
  wire: RemoteWire,
  batchId: string,
  { calls, signal }: BatchCare,
): Promise<{ readonly ok: true; readonly batch: RemoteBatch } | BatchFailure> {
  const answer = await calls.send(wire.get(batchId), signal);
  return answer.ok ? wire.read(answer, "other") : lostFailure(answer);
}

/** By its tag or its file; where the provider keeps neither, by how many requests it has. */
function fits(batch: RemoteBatch, record: BatchRecord, { traits, list }: RemoteWire): boolean {
  if (isSure(batch, { record })) return true;
  if (list === undefined) return false; // nothing shows whose it is
  const isTold = traits.tag !== "ids" || (batch.inputFile !== undefined && record.file !== undefined);
  return !isTold && batch.counts.total === record.items;
}

function adopted(batch: RemoteBatch, record: BatchRecord): BatchRecord {
  const { passedOver = [], ...rest } = record;
  const others = passedOver.filter((id) => id !== batch.id);
  return {
    ...rest,
    ...(others.length === 0 ? {} : { passedOver: others }),
    ...(isSure(batch, { record }) ? {} : { isUnconfirmed: true }),
    ...(batch.createdWallMs === undefined ? {} : { createdWallMs: batch.createdWallMs }),
    state: "running",
    batchId: batch.id,
  };
}

function otherKey(record: BatchRecord, name: string): PerigeeError {
  const provider = providerOfBatch(record);
  return new PerigeeError(
    "forbidden",
    `batch ${name} of ${provider} was made with another key or address: set that one`,
  );
}

function refusal(what: string, { message, status }: BatchFailure): PerigeeError {
  return new PerigeeError("conflict", `${what}: ${message}${status === 0 ? "" : ` (HTTP ${status})`}`);
}
