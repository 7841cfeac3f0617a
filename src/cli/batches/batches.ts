/**
 * `perigee batches`: the open batches of a data folder. `list` and `cancel` work while another process uses the folder, `adopt` does not.
 */
import { resolve } from "node:path";
import { systemClock } from "../../clock.ts";
import { systemDisk } from "../../disk.ts";
import { proxiesFrom } from "../../dispatch/proxy.ts";
import { createUndiciTransport, loadUndici } from "../../dispatch/undici.ts";
import { BatchCalls } from "../../engine/batches/batch_calls.ts";
import { adoptBatch, type BatchCare, cancelBatch, providerOfBatch } from "../../engine/batches/batch_care.ts";
import { BATCHES, type BatchRecord, readBatch, storedBatch } from "../../engine/batches/batch_record.ts";
import { remoteWireOf } from "../../engine/config/batch_options.ts";
import { resolveConfig } from "../../engine/config/config.ts";
import { importModules } from "../../engine/config/own_providers.ts";
import { isRunOf } from "../../engine/files/stored_tasks.ts";
import { decodeBody } from "../../engine/files/task_body.ts";
import { type RecordedBatch, recordedBatch } from "../../engine/shown/recorded_batches.ts";
import { PerigeeError } from "../../errors.ts";
import { FOLDER_IN_USE } from "../../store/folder/data_dir.ts";
import { readStoreCopy } from "../../store/folder/store_copy.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import { openSqliteStore } from "../../store/sqlite.ts";
import { count, duration, percent } from "../numbers.ts";
import { type ConfigArguments, configOf } from "../prices.ts";
import { answer } from "../satellites/answer.ts";
import { table } from "../table.ts";

const CONNECTIONS_MAX = 8;
/** A data folder has fewer open batches. */
const RECORDS_MAX = 100_000;
const MINUTE_MS = 60_000;

/** Options as commander passes them. */
interface BatchesArguments extends ConfigArguments {
  readonly data?: string;
  readonly out?: string;
  readonly json?: boolean;
  readonly all?: boolean;
}

/** A batch as `--json` shows it. */
interface ShownBatch extends Omit<RecordedBatch, "reason"> {
  readonly created_at: string | null;
  readonly deadline: string | null;
  readonly output: string | null;
  /** Why it waits to be created; null while nothing is wrong. */
  readonly reason: string | null;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. As the other two. */
export function listBatches(options: Record<string, unknown>): Promise<number> {
  const given: BatchesArguments = options; // commander's own shape, declared in batch_commands.ts
  return answer(given, async () => {
    const batches = (await found(given)).map(({ shown }) => shown);
    return { json: { batches }, text: listText(batches, systemClock.wallMs()) };
  });
}

export function cancelBatches(id: string | undefined, options: Record<string, unknown>): Promise<number> {
  const given: BatchesArguments = options; // as above
  return answer(given, async () => {
    if ((id === undefined) === (given.all !== true))
      throw new PerigeeError("usage", "batches cancel needs the id of a batch, or --all");
    const all = (await found(given)).map(({ record }) => record);
    const wanted = id === undefined ? all.filter(isAtProvider) : all.filter((record) => isNamed(record, id));
    if (id !== undefined && wanted.length === 0)
      throw new PerigeeError("not_found", `no open batch ${id} is recorded in ${folderOf(given)}`);
    const cancelled = await withCare(given, async (care) => {
      const done: { readonly id: string; readonly provider: string; readonly state: string }[] = [];
      for (const record of wanted) {
        const batch = await cancelBatch(record, care);
        done.push({ id: batch.id, provider: providerOfBatch(record), state: batch.rawState });
      }
      return done;
    });
    const rows = cancelled.map((batch) => [batch.id, batch.provider, batch.state]);
    const rest =
      "their runs collect what they have finished and send the rest another way: those at work now, others when they are called again\n";
    return {
      json: { batches: cancelled },
      text: rows.length === 0 ? "no open batch is with a provider\n" : `${table(rows)}${rest}`,
    };
  });
}

export function adopt(id: string, options: Record<string, unknown>): Promise<number> {
  const given: BatchesArguments = options; // as above
  return answer(given, async () => {
    const record = await onStore(folderOf(given), async (store) => {
      const stored = await store.records(EVERY_PROJECT, { collection: BATCHES, limit: RECORDS_MAX });
      return withCare(given, async (care) => {
        const adopted = await adoptBatch(id, stored.map(readBatch), care);
        await store.change([{ kind: "put", record: storedBatch(adopted) }]);
        return adopted;
      });
    });
    const { tag, items, model, isUnconfirmed = false } = record;
    const doubt = isUnconfirmed
      ? "; its results will show whether it is, until then it is not cancelled"
      : "";
    return {
      json: { id, tag, provider: providerOfBatch(record), model, items, confirmed: !isUnconfirmed },
      text: `${id} is the batch of ${count(items)} items for ${model}${doubt}\nits run collects it when it is called again\n`,
    };
  });
}

interface FoundBatch {
  readonly record: BatchRecord;
  readonly shown: ShownBatch;
}

/** Of one run with `--out` and without `--data` or with, else of the whole folder. */
async function found(given: BatchesArguments): Promise<readonly FoundBatch[]> {
  const out = given.out === undefined ? undefined : resolve(given.out);
  return readStoreCopy(folderOf(given), async (store) => {
    const all = store.records(BATCHES).map(readBatch);
    const shown = all.flatMap((record): FoundBatch[] => {
      const task = store.findTask(({ id }) => id === record.taskId);
      if (out !== undefined && (task === undefined || !isRunOf(task, out))) return [];
      const body = task === undefined ? undefined : decodeBody(task.body);
      const slaMs = (body?.slaMinutes ?? Number.NaN) * MINUTE_MS;
      const deadlineMs = (body?.acceptedWallMs ?? Number.NaN) + slaMs;
      return [{ record, shown: shownOf(record, deadlineMs, body?.out) }];
    });
    return shown.sort((one, other) => one.record.spooledWallMs - other.record.spooledWallMs);
  });
}

function shownOf(record: BatchRecord, deadlineMs: number, output: string | undefined): ShownBatch {
  const { createdWallMs } = record;
  const { reason = null, ...shown } = recordedBatch(record);
  return {
    ...shown,
    created_at: shown.id === null || createdWallMs === undefined ? null : isoTime(createdWallMs),
    deadline: Number.isFinite(deadlineMs) ? isoTime(deadlineMs) : null,
    output: output ?? null,
    reason,
  };
}

function listText(batches: readonly ShownBatch[], nowWallMs: number): string {
  if (batches.length === 0) return "no open batches\n";
  const head = ["id", "model", "state", "items", "finished", "age", "due"];
  const reasons = batches.flatMap(({ id, tag, reason }) =>
    reason === null ? [] : [`${id ?? `(${tag})`} waits: ${reason}\n`],
  );
  const rows = batches.map(({ id, tag, model, state, items, finished, created_at, deadline }) => [
    id ?? `(${tag})`,
    model,
    state,
    count(items),
    finished === null ? "-" : percent(finished / Math.max(1, items)),
    created_at === null ? "-" : duration(nowWallMs - Date.parse(created_at)),
    deadline === null ? "-" : dueText(Date.parse(deadline) - nowWallMs),
  ]);
  return `${table([head, ...rows])}${reasons.join("")}`;
}

function dueText(inMs: number): string {
  return inMs > 0 ? `in ${duration(inMs)}` : "passed";
}

function folderOf({ data, out }: BatchesArguments): string {
  return data ?? (out === undefined ? "./perigee-data" : `${out}.perigee`);
}

function isAtProvider({ batchId, end }: BatchRecord): boolean {
  return batchId !== undefined && end === undefined;
}

function isNamed({ batchId, tag }: BatchRecord, id: string): boolean {
  return batchId === id || tag === id;
}

async function withCare<T>(given: BatchesArguments, work: (care: BatchCare) => Promise<T>): Promise<T> {
  const options = await configOf(given);
  const { providers, batches } = resolveConfig(options, process.env, await importModules(options.providers));
  const wireOf: BatchCare["wireOf"] = (name, kind) => {
    const settings = providers.find((provider) => provider.name === name);
    return settings === undefined ? undefined : remoteWireOf(settings, batches, kind);
  };
  const parts = { clock: systemClock, disk: systemDisk, connectionsMax: CONNECTIONS_MAX };
  const transport = createUndiciTransport(
    { ...parts, proxyOf: proxiesFrom(process.env) },
    await loadUndici(),
  );
  try {
    const calls = new BatchCalls(systemClock, transport, systemDisk);
    return await work({ calls, wireOf, signal: new AbortController().signal });
  } finally {
    await transport.close();
  }
}

async function onStore<T>(
  dataDir: string,
  work: (store: Awaited<ReturnType<typeof openSqliteStore>>) => Promise<T>,
): Promise<T> {
  await readStoreCopy(dataDir, async () => undefined); // throws where none exists, instead of making one
  const store = await openSqliteStore({ dataDir, reserveBytes: 0 }).catch((error: unknown) => {
    if (!(error instanceof PerigeeError) || error.code !== "data_dir_in_use") throw error;
    const message = error.message.replace(FOLDER_IN_USE, "stop it first: it finds its batches by itself");
    throw new PerigeeError("data_dir_in_use", message, { cause: error });
  });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

function isoTime(wallMs: number): string {
  return new Date(Math.round(wallMs)).toISOString();
}
