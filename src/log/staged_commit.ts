/**
 * The contents of the next commit of the work log: records, and the rows and lines that belong to them.
 *
 *   staged -> under way -> committed | refused        the promises of a refused one reject with the reason; nothing of it has happened
 *
 * Bytes are copied when they are staged, and once more for each try to commit them, because those move to the store's thread.
 */
import { crc32 } from "node:zlib";
import type { DiskFile } from "../disk.ts";
import type { LogCommit, LoggedTask, LogOutput } from "../store/log_rows.ts";
import type { TaskSums } from "./open_work.ts";
import { LogRecords } from "./records.ts";
import { StagedTexts } from "./staged_texts.ts";

/** Where the lines of a task go. */
export interface StagedOutput {
  readonly file: DiskFile;
  /** The end of its lines that are committed. */
  readonly position: number;
}

/** A record of an outcome: where it begins among those of the commit, or bytes of its own. */
type StagedRecord = number | Uint8Array;

/** Lines of one task, with the records beside them if they become answers. */
interface StagedLines {
  readonly items: number[];
  readonly records: StagedRecord[];
  readonly texts: StagedTexts;
}

/** What a commit changes of tasks that are stored already. */
interface StagedChanges {
  readonly dropped: { readonly tasks: number[]; readonly items: number[] };
  readonly bodies: [task: number, body: string, isSpent: boolean][];
  readonly erased: number[];
  readonly removed: number[];
}

export class StagedCommit {
  readonly records: LogRecords = new LogRecords();
  readonly changes: StagedChanges = {
    dropped: { tasks: [], items: [] },
    ...{ bodies: [], erased: [], removed: [] },
  };
  /** Tasks that become final with it, what they took, and their kinds. */
  readonly finals: Map<number, { readonly sums: TaskSums; readonly kind: number }> = new Map();
  /** Tasks of which items are opened again with it: their last item may have ended meanwhile, and they are not final. */
  readonly reopened: Set<number> = new Set();
  readonly #tasks = new StagedTasks();
  readonly #answers = new StagedAnswers();
  readonly #lines = new Map<number, StagedLines>();
  readonly #end = new CommitEnd();
  #textBytes = 0;
  /** Whether a commit is wanted although no record was added, and whether a caller waits for it. */
  #demand: "none" | "asked" | "urgent" = "none";

  /** Rejects when it is refused. Has a handler, so that nobody needs to wait for it. */
  get durable(): Promise<void> {
    return this.#end.promise;
  }

  get isUrgent(): boolean {
    return this.#demand === "urgent";
  }

  /** Whether there is nothing to commit. */
  get isEmpty(): boolean {
    return this.#demand === "none" && this.records.byteLength === 0;
  }

  /** Records and texts. */
  get byteLength(): number {
    return this.records.byteLength + this.#textBytes;
  }

  /** A commit is wanted although no record was added. `isUrgent`: a caller waits for it. */
  ask(isUrgent: boolean): void {
    if (isUrgent) this.#demand = "urgent";
    else if (this.#demand === "none") this.#demand = "asked";
  }

  /** What was accepted first; undefined without any. */
  get first(): { readonly number: number; readonly createdWallMs: number } | undefined {
    return this.#tasks.first;
  }

  hasId(id: string): boolean {
    return this.#tasks.hasId(id);
  }

  accept(task: Omit<LoggedTask, "request">, request: Uint8Array): void {
    this.#textBytes += request.byteLength;
    this.#tasks.add(task, request);
  }

  answer(task: number, item: number, record: StagedRecord, text: Uint8Array): void {
    this.#textBytes += text.byteLength;
    this.#answers.add(task, item, record, text);
  }

  /** The answer is deleted, if there is one. */
  drop(task: number, item: number): void {
    this.changes.dropped.tasks.push(task);
    this.changes.dropped.items.push(item);
  }

  /** A line for the output of a task; as an answer, it is stored with the record of its outcome. */
  line(task: number, item: number, record: StagedRecord, text: Uint8Array): void {
    this.#textBytes += text.byteLength;
    const lines = this.#lines.get(task) ?? { items: [], records: [], texts: new StagedTexts() };
    this.#lines.set(task, lines);
    lines.items.push(item);
    lines.records.push(record);
    lines.texts.add(text);
  }

  /** Lines of a task become answers. */
  holdLines(task: number): void {
    const lines = this.#lines.get(task);
    this.#lines.delete(task);
    let start = 0;
    for (const [index, item] of (lines?.items ?? []).entries()) {
      const end = start + (lines?.texts.sizes[index] ?? 0);
      const text = lines?.texts.view().subarray(start, end) ?? NO_BYTES;
      this.answer(task, item, lines?.records[index] ?? NO_BYTES, text);
      start = end;
    }
  }

  /** What is written to files, and the records that say so. `outputOf`: of a task that has lines. */
  outputs(outputOf: (task: number) => StagedOutput, wrote: LogRecords): LogOutput[] {
    return [...this.#lines].map(([task, { texts }]) => {
      const { file, position } = outputOf(task);
      const bytes = texts.view();
      wrote.add("wrote", { task, start: position, end: position + bytes.byteLength, crc32: crc32(bytes) });
      return { task, file, position, bytes };
    });
  }

  /** The rows, in buffers of their own. */
  rows(): Pick<LogCommit, "accepted" | "answers" | "dropped" | "bodies" | "erased" | "removed"> {
    return {
      accepted: this.#tasks.rows(),
      answers: this.#answers.rows((start) => this.records.slice(start)),
      ...this.changes,
    };
  }

  committed(): void {
    this.#end.resolve();
  }

  refuse(error: unknown): void {
    this.#end.reject(error);
  }
}

/** Accepted tasks in columns, with their requests. */
class StagedTasks {
  readonly #ids = new Set<string>();
  readonly #columns = {
    ...{ numbers: [] as number[], ids: [] as string[], projects: [] as number[], kinds: [] as number[] },
    ...{ parents: [] as string[], createdWallMs: [] as number[], bodies: [] as string[] },
  };
  readonly #requests = new StagedTexts();

  get first(): StagedCommit["first"] {
    const { numbers, createdWallMs } = this.#columns;
    const [number] = numbers;
    return number === undefined ? undefined : { number, createdWallMs: createdWallMs[0] ?? 0 };
  }

  hasId(id: string): boolean {
    return this.#ids.has(id);
  }

  add(task: Omit<LoggedTask, "request">, request: Uint8Array): void {
    this.#ids.add(task.id);
    const { numbers, ids, projects, kinds, parents, createdWallMs, bodies } = this.#columns;
    numbers.push(task.number);
    ids.push(task.id);
    projects.push(task.project);
    kinds.push(task.kind);
    parents.push(task.parent);
    createdWallMs.push(task.createdWallMs);
    bodies.push(task.body);
    this.#requests.add(request);
  }

  rows(): LogCommit["accepted"] {
    return { ...this.#columns, requestSizes: this.#requests.sizes, requests: this.#requests.copy() };
  }
}

/** Answers in columns, with their texts. */
class StagedAnswers {
  readonly #tasks: number[] = [];
  readonly #items: number[] = [];
  readonly #records: StagedRecord[] = [];
  readonly #texts = new StagedTexts();

  add(task: number, item: number, record: StagedRecord, text: Uint8Array): void {
    this.#tasks.push(task);
    this.#items.push(item);
    this.#records.push(record);
    this.#texts.add(text);
  }

  /** `recordAt`: the record of the commit that begins there. */
  rows(recordAt: (start: number) => Uint8Array): LogCommit["answers"] {
    const records = this.#records.map((record) => (typeof record === "number" ? recordAt(record) : record));
    return {
      tasks: this.#tasks,
      items: this.#items,
      recordSizes: records.map(({ byteLength }) => byteLength),
      textSizes: this.#texts.sizes,
      records: joined(records),
      texts: this.#texts.copy(),
    };
  }
}

/** The promise of a commit, which somebody settles later. */
class CommitEnd {
  readonly promise: Promise<void>;
  resolve: () => void = () => undefined;
  reject: (error: unknown) => void = () => undefined;

  constructor() {
    this.promise = new Promise<void>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => undefined);
  }
}

const NO_BYTES = new Uint8Array();

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let end = 0;
  for (const { byteLength } of parts) end += byteLength;
  const bytes = new Uint8Array(end);
  end = 0;
  for (const part of parts) {
    bytes.set(part, end);
    end += part.byteLength;
  }
  return bytes;
}
