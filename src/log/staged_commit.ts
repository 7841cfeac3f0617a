/**
 * What goes into the next commit of the work log: records, and the rows and lines that belong to them.
 *
 *   staged -> under way -> committed | refused        the waiters of a refused one are told why; nothing of it has happened
 *
 * Bytes are copied when they are staged, and once more for each try to commit them, because those move to the store's thread.
 */
import { crc32 } from "node:zlib";
import type { DiskFile } from "../disk.ts";
import { allocate } from "../large_bytes.ts";
import type { LogCommit, LogOutput } from "../store/log_rows.ts";
import type { TaskSums } from "./open_work.ts";
import { bytesOfRecord, type FieldsOf, LogRecords } from "./records.ts";

/** The row of a task that is accepted. */
export interface StagedTask {
  readonly number: number;
  readonly id: string;
  readonly project: number;
  readonly kind: number;
  readonly createdWallMs: number;
  readonly body: string;
  readonly request: Uint8Array;
}

/** Where the lines of a task go. */
export interface TaskOutput {
  readonly file: DiskFile;
  /** The end of its lines that are committed. */
  readonly position: number;
}

/** A line, with what it becomes when it finds no room in its file. */
interface StagedLine {
  readonly item: number;
  readonly outcome: FieldsOf<"outcome">;
  readonly text: Uint8Array;
}

export class StagedCommit {
  readonly records: LogRecords = new LogRecords();
  /** Rejects when it is refused. Has a handler, so that nobody needs to wait for it. */
  readonly durable: Promise<void>;
  readonly dropped: { readonly tasks: number[]; readonly items: number[] } = { tasks: [], items: [] };
  readonly bodies: [task: number, body: string][] = [];
  /** Tasks that become final with it, and what they took. */
  readonly finals: Map<number, TaskSums> = new Map();
  readonly erased: number[] = [];
  readonly removed: number[] = [];
  readonly #tasks = new Map<string, StagedTask>();
  readonly #answers: { task: number; item: number; record: Uint8Array; text: Uint8Array }[] = [];
  readonly #lines = new Map<number, StagedLine[]>();
  #end: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  #textBytes = 0;
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

  hasId(id: string): boolean {
    return this.#tasks.has(id);
  }

  accept(task: StagedTask): void {
    this.#textBytes += task.request.byteLength;
    this.#tasks.set(task.id, { ...task, request: copyOf(task.request) });
  }

  answer(task: number, item: number, record: Uint8Array, text: Uint8Array): void {
    this.#textBytes += text.byteLength;
    this.#answers.push({ task, item, record, text: copyOf(text) });
  }

  /** The answer goes, if there is one. */
  drop(task: number, item: number): void {
    this.dropped.tasks.push(task);
    this.dropped.items.push(item);
  }

  /** A line for the output of a task; as an answer, the record of its outcome stands beside it. */
  line(task: number, item: number, outcome: FieldsOf<"outcome">, text: Uint8Array): void {
    this.#textBytes += text.byteLength;
    const lines = this.#lines.get(task);
    const line = { item, outcome, text: copyOf(text) };
    if (lines === undefined) this.#lines.set(task, [line]);
    else lines.push(line);
  }

  /** Lines of a task become answers. */
  holdLines(task: number): void {
    for (const { item, outcome, text } of this.#lines.get(task) ?? [])
      this.#answers.push({ task, item, record: bytesOfRecord("outcome", { ...outcome, isLine: 0 }), text });
    this.#lines.delete(task);
  }

  /** What is written to files, and the records that say so. `outputOf`: of a task that has lines. */
  outputs(outputOf: (task: number) => TaskOutput, wrote: LogRecords): LogOutput[] {
    return [...this.#lines].map(([task, lines]) => {
      const { file, position } = outputOf(task);
      const bytes = joined(lines.map(({ text }) => text));
      wrote.add("wrote", { task, start: position, end: position + bytes.byteLength, crc32: crc32(bytes) });
      return { task, file, position, bytes };
    });
  }

  /** The rows, in buffers of their own. */
  rows(): Pick<LogCommit, "accepted" | "answers" | "dropped" | "bodies" | "erased" | "removed"> {
    const tasks = [...this.#tasks.values()];
    const { dropped, bodies, erased, removed } = this;
    return {
      accepted: {
        numbers: tasks.map(({ number }) => number),
        ids: tasks.map(({ id }) => id),
        projects: tasks.map(({ project }) => project),
        kinds: tasks.map(({ kind }) => kind),
        createdWallMs: tasks.map(({ createdWallMs }) => createdWallMs),
        bodies: tasks.map(({ body }) => body),
        requestSizes: tasks.map(({ request }) => request.byteLength),
        requests: joined(tasks.map(({ request }) => request)),
      },
      answers: {
        tasks: this.#answers.map(({ task }) => task),
        items: this.#answers.map(({ item }) => item),
        recordSizes: this.#answers.map(({ record }) => record.byteLength),
        textSizes: this.#answers.map(({ text }) => text.byteLength),
        bytes: joined(this.#answers.flatMap(({ record, text }) => [record, text])),
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

function copyOf(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes); // not by `slice`, which gives another view of a `Buffer`
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(allocate(parts.reduce((sum, part) => sum + part.byteLength, 0)).buffer);
  let end = 0;
  for (const part of parts) {
    bytes.set(part, end);
    end += part.byteLength;
  }
  return bytes;
}
