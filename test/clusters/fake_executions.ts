/**
 * Executions without satellites: durable as the real ones, on the store of the test, and ended as the test says.
 *
 *   submitted (a record, inserted) -> its time passes -> its end (the record, replaced) -> listeners called
 *
 * What the process had pending continues in the next one, as a new attempt.
 */
import type { Clock } from "../../src/clock.ts";
import { PerigeeError } from "../../src/errors.ts";
import type {
  ExecutionCaller,
  ExecutionRequest,
  ExecutionStatus,
  Executions,
  ExecutionView,
} from "../../src/satellites/sdk/execution.ts";
import { EVERY_PROJECT, type StoredRecord } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { parseDurationMs } from "../../src/work/sla.ts";

const COLLECTION = "test_execution";

export interface FakeEnd {
  readonly afterMs?: number;
  readonly output?: JsonObject;
  readonly error?: string;
  readonly retries?: number;
}

export type Answering = (request: ExecutionRequest) => FakeEnd | undefined;

/** What outlives processes: what satellites did, and what they were asked. */
export interface FakeLedger {
  answer: Answering;
  /** Requests whose submission was called, in order. */
  readonly submitted: ExecutionRequest[];
  /** Ids whose end was made durable, in order, as often as it was. */
  readonly ended: string[];
  /** Refuses a submission with an error. */
  refuse?: (request: ExecutionRequest) => PerigeeError | undefined;
  /** Executions at once, now and at most. */
  running: number;
  runningMax: number;
}

export function ledger(answer: Answering): FakeLedger {
  return { answer, submitted: [], ended: [], running: 0, runningMax: 0 };
}

interface Stored {
  readonly request: ExecutionRequest;
  readonly status: ExecutionStatus;
  readonly updatedWallMs: number;
  readonly output: JsonObject | null;
  readonly error: ExecutionView["error"];
  readonly retries: number;
}

export class FakeExecutions implements Executions {
  readonly #clock: Clock;
  readonly #store: Store;
  readonly #ledger: FakeLedger;
  readonly #listeners = new Set<(execution: ExecutionView) => void>();
  readonly #pending = new Map<string, StoredRecord>();

  constructor(clock: Clock, store: Store, book: FakeLedger) {
    this.#clock = clock;
    this.#store = store;
    this.#ledger = book;
  }

  /** Goes on with what is pending. */
  async resume(): Promise<void> {
    this.#ledger.running = 0;
    const all = await this.#store.records(EVERY_PROJECT, { collection: COLLECTION, limit: 100_000 });
    for (const record of all) {
      const { status } = read(record);
      if (status === "pending") this.#run(record);
      // The process died when this was durable, and before it could say so.
      else if (!this.#ledger.ended.includes(record.id)) this.#ledger.ended.push(record.id);
    }
  }

  async submit(caller: ExecutionCaller, request: ExecutionRequest): Promise<ExecutionView> {
    const refused = this.#ledger.refuse?.(request);
    if (refused !== undefined) throw refused;
    this.#ledger.submitted.push(request);
    const wallMs = this.#clock.wallMs();
    const record: StoredRecord = {
      collection: COLLECTION,
      id: request.id ?? "",
      project: caller.project,
      parent: "",
      createdWallMs: wallMs,
      body: JSON.stringify({
        request,
        status: "pending",
        updatedWallMs: wallMs,
        output: null,
        error: null,
        retries: 0,
      } satisfies Stored),
    };
    await this.#store.change([{ kind: "insert", record }]);
    this.#run(record);
    return view(record);
  }

  async execution(project: string, id: string): Promise<ExecutionView> {
    const record = await this.#store.record(project, COLLECTION, id);
    if (record === undefined) throw new PerigeeError("not_found", "no such execution");
    return view(record);
  }

  async list(): ReturnType<Executions["list"]> {
    return { items: [], hasMore: false };
  }

  async cancel(project: string, id: string): Promise<ExecutionView> {
    const record = this.#pending.get(id);
    if (record === undefined) return await this.execution(project, id);
    await this.#end(record, "cancelled", {});
    return await this.execution(project, id);
  }

  onFinished(listener: (execution: ExecutionView) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  counts(): ReturnType<Executions["counts"]> {
    return { queued: 0, running: this.#pending.size };
  }

  async close(): Promise<void> {
    this.#pending.clear();
  }

  #run(record: StoredRecord): void {
    this.#pending.set(record.id, record);
    this.#ledger.running += 1;
    this.#ledger.runningMax = Math.max(this.#ledger.runningMax, this.#ledger.running);
    const answer = this.#ledger.answer(read(record).request);
    const endMs = answer === undefined ? Number.POSITIVE_INFINITY : (answer.afterMs ?? 10);
    const leftMs = view(record).deadlineWallMs - this.#clock.wallMs();
    this.#clock.timer(Math.min(endMs, leftMs), () => {
      const status = endMs > leftMs ? "expired" : answer?.error === undefined ? "completed" : "failed";
      void this.#end(record, status, answer ?? {}).catch(() => undefined); // the process has died
    });
  }

  async #end(record: StoredRecord, status: ExecutionStatus, end: FakeEnd): Promise<void> {
    if (!this.#pending.delete(record.id)) return;
    this.#ledger.running -= 1;
    const stored: Stored = {
      ...read(record),
      status,
      updatedWallMs: this.#clock.wallMs(),
      output: status === "completed" ? (end.output ?? {}) : null,
      error:
        status === "completed"
          ? null
          : { code: end.error ?? status, message: `it ${status}`, retryable: false },
      retries: end.retries ?? 0,
    };
    const ended = { ...record, body: JSON.stringify(stored) };
    await this.#store.change([{ kind: "put", record: ended }]);
    this.#ledger.ended.push(record.id);
    for (const listener of this.#listeners) listener(view(ended));
  }
}

function read({ body }: StoredRecord): Stored {
  return JSON.parse(body) as Stored;
}

function view(record: StoredRecord): ExecutionView {
  const { request, ...stored } = read(record);
  const { satellite, sla, member, deadlineWallMs = Number.POSITIVE_INFINITY } = request;
  return {
    ...stored,
    id: record.id,
    project: record.project,
    satellite,
    sla,
    createdWallMs: record.createdWallMs,
    deadlineWallMs: Math.min(deadlineWallMs, record.createdWallMs + (parseDurationMs(sla) ?? 0)),
    ...(member === undefined ? {} : { member }),
  };
}
