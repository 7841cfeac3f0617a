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

export class StagedCommit {
  readonly records: LogRecords = new LogRecords();
  /** Rejects when it is refused. Has a handler, so that nobody needs to wait for it. */
  readonly durable: Promise<void>;
  readonly dropped: { readonly tasks: number[]; readonly items: number[] } = { tasks: [], items: [] };
  readonly bodies: [task: number, body: string, isSpent: boolean][] = [];
  /** Tasks that become final with it, and what they took. */
  readonly finals: Map<number, TaskSums> = new Map();
  /** Tasks of which items are opened again with it: their last item may have ended meanwhile, and they are not final. */
  readonly reopened: Set<number> = new Set();
  readonly erased: number[] = [];
  readonly removed: number[] = [];
  readonly #ids = new Set<string>();
  readonly #tasks = {
    ...{ numbers: [] as number[], ids: [] as string[], projects: [] as number[], kinds: [] as number[] },
    ...{ parents: [] as string[], createdWallMs: [] as number[], bodies: [] as string[] },
  };
  readonly #requests = new StagedTexts();
  readonly #answers = { tasks: [] as number[], items: [] as number[], records: [] as StagedRecord[] };
  readonly #answerTexts = new StagedTexts();
  readonly #lines = new Map<number, StagedLines>();
  #end: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  #textBytes = 0;
  /** A caller waits for it. */
  isUrgent = false;
  #isAsked = false;

  constructor() {
    this.durable = new Promise<void>((resolve, reject) => {
      this.#end = { resolve, reject };
    });
    this.durable.catch(() => undefined);
  }

  /** Whether there is nothing to commit. */
  get isEmpty(): boolean {
    return !this.#isAsked && this.records.byteLength === 0;
  }

  /** Records and texts. */
  get byteLength(): number {
    return this.records.byteLength + this.#textBytes;
  }

  /** A commit is wanted although no record was added. */
  ask(): void {
    this.#isAsked = true;
  }

  /** What was accepted first; undefined without any. */
  get first(): { readonly number: number; readonly createdWallMs: number } | undefined {
    const { numbers, createdWallMs } = this.#tasks;
    const [number] = numbers;
    return number === undefined ? undefined : { number, createdWallMs: createdWallMs[0] ?? 0 };
  }

  hasId(id: string): boolean {
    return this.#ids.has(id);
  }

  accept(task: Omit<LoggedTask, "request">, request: Uint8Array): void {
    this.#textBytes += request.byteLength;
    this.#ids.add(task.id);
    const { numbers, ids, projects, kinds, parents, createdWallMs, bodies } = this.#tasks;
    numbers.push(task.number);
    ids.push(task.id);
    projects.push(task.project);
    kinds.push(task.kind);
    parents.push(task.parent);
    createdWallMs.push(task.createdWallMs);
    bodies.push(task.body);
    this.#requests.add(request);
  }

  answer(task: number, item: number, record: StagedRecord, text: Uint8Array): void {
    this.#textBytes += text.byteLength;
    this.#answers.tasks.push(task);
    this.#answers.items.push(item);
    this.#answers.records.push(record);
    this.#answerTexts.add(text);
  }

  /** The answer is deleted, if there is one. */
  drop(task: number, item: number): void {
    this.dropped.tasks.push(task);
    this.dropped.items.push(item);
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
    const { dropped, bodies, erased, removed } = this;
    const records: Uint8Array[] = [];
    const recordSizes: number[] = [];
    for (const record of this.#answers.records) {
      const bytes = typeof record === "number" ? this.records.slice(record) : record;
      records.push(bytes);
      recordSizes.push(bytes.byteLength);
    }
    return {
      accepted: { ...this.#tasks, requestSizes: this.#requests.sizes, requests: this.#requests.copy() },
      answers: {
        tasks: this.#answers.tasks,
        items: this.#answers.items,
        recordSizes,
        textSizes: this.#answerTexts.sizes,
        records: joined(records),
        texts: this.#answerTexts.copy(),
      },
      dropped,
      bodies,
      erased,
      removed,
    };
  }

  committed(): void {
    this.#end?.resolve();
  }

  refuse(error: unknown): void {
    this.#end?.reject(error);
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
