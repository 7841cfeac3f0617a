/**
 * The work log's rows in plain memory, for the memory store.
 */
import { PerigeeError } from "../errors.ts";
import type {
  LogCommit,
  LoggedAnswer,
  LoggedTask,
  LoggedTaskQuery,
  OpenedLog,
  StoredLogEntry,
} from "./log_rows.ts";
import { PAGE_ROWS_MAX } from "./page_bounds.ts";

/** Keeps the buffers that it receives, and copies what it returns. */
export class MemoryLog {
  readonly #names: string[] = [];
  readonly #tasks = new Map<number, LoggedTask>();
  readonly #numbers = new Map<string, number>();
  /** By task, then by item. */
  readonly #answers = new Map<number, Map<number, LoggedAnswer>>();
  #entries: StoredLogEntry[] = [];

  open(): OpenedLog {
    return { names: [...this.#names], lastTask: [...this.#tasks.keys()].at(-1) ?? 0, notes: [] };
  }

  commit(commit: Omit<LogCommit, "outputs">): void {
    const { names, accepted, dropped, answers, bodies, erased, removed, sequence, records, cutTo } = commit;
    if (new Set(accepted.ids).size < accepted.ids.length || accepted.ids.some((id) => this.#numbers.has(id)))
      throw new PerigeeError("conflict", "a task of the commit has an id that is in use");
    this.#names.push(...names.map(([, text]) => text));
    this.#accept(accepted);
    for (const [index, task] of dropped.tasks.entries())
      this.#answers.get(task)?.delete(dropped.items[index] ?? 0);
    this.#answer(answers);
    for (const [number, body, isSpent] of bodies) {
      const task = this.#tasks.get(number);
      const request = isSpent ? undefined : task?.request;
      if (task !== undefined) this.#tasks.set(number, { ...task, body, request });
    }
    for (const number of erased) this.#erase(number);
    for (const number of removed) {
      this.#numbers.delete(this.#tasks.get(number)?.id ?? "");
      this.#tasks.delete(number);
      this.#answers.delete(number);
    }
    this.#entries.push({ sequence, records });
    if (cutTo > 0) this.#entries = this.#entries.filter((entry) => entry.sequence > cutTo);
  }

  entries(after: number): StoredLogEntry[] {
    const found = this.#entries.filter((entry) => entry.sequence > after);
    return found.slice(0, PAGE_ROWS_MAX).map((entry) => ({ ...entry, records: entry.records.slice() }));
  }

  task(key: string | number): LoggedTask | undefined {
    const task = this.#tasks.get(typeof key === "number" ? key : (this.#numbers.get(key) ?? 0));
    if (task === undefined) return undefined;
    const [first] = this.answers(task.number, 0, 1);
    return { ...task, ...copied("request", task.request), ...(first?.item === 0 ? { first } : {}) };
  }

  tasks({ after, limit, isNewestFirst, numbers, ...wanted }: LoggedTaskQuery): LoggedTask[] {
    const { project, kind, parent } = wanted;
    const found = [...this.#tasks.values()].filter(
      (task) =>
        (project === undefined || task.project === project) &&
        (kind === undefined || task.kind === kind) &&
        (parent === undefined || task.parent === parent) &&
        (numbers === undefined || numbers.includes(task.number)),
    );
    const ordered = isNewestFirst === true ? found.toReversed() : found;
    return ordered
      .filter(
        ({ number }) => after === undefined || (isNewestFirst === true ? number < after : number > after),
      )
      .slice(0, limit)
      .map(({ request: _request, ...task }) => task);
  }

  answers(task: number, from: number, limit: number): LoggedAnswer[] {
    return [...(this.#answers.get(task)?.values() ?? [])]
      .filter(({ item }) => item >= from)
      .toSorted((one, other) => one.item - other.item)
      .slice(0, Math.min(limit, PAGE_ROWS_MAX))
      .map(({ item, record, text }) => ({ item, record: record.slice(), ...copied("text", text) }));
  }

  #accept(rows: LogCommit["accepted"]): void {
    let start = 0;
    for (const [index, number] of rows.numbers.entries()) {
      const end = start + (rows.requestSizes[index] ?? 0);
      const id = rows.ids[index] ?? "";
      this.#numbers.set(id, number);
      this.#tasks.set(number, {
        number,
        id,
        project: rows.projects[index] ?? 0,
        kind: rows.kinds[index] ?? 0,
        parent: rows.parents[index] ?? "",
        createdWallMs: rows.createdWallMs[index] ?? 0,
        body: rows.bodies[index] ?? "",
        request: rows.requests.subarray(start, end),
      });
      start = end;
    }
  }

  #answer({ tasks, items, recordSizes, textSizes, records, texts }: LogCommit["answers"]): void {
    let [recordEnd, textEnd] = [0, 0];
    for (const [index, task] of tasks.entries()) {
      const item = items[index] ?? 0;
      const record = records.subarray(recordEnd, recordEnd + (recordSizes[index] ?? 0));
      const text = texts.subarray(textEnd, textEnd + (textSizes[index] ?? 0));
      const answers = this.#answers.get(task) ?? new Map<number, LoggedAnswer>();
      this.#answers.set(task, answers);
      answers.set(item, { item, record, text });
      recordEnd += record.byteLength;
      textEnd += text.byteLength;
    }
  }

  #erase(number: number): void {
    const task = this.#tasks.get(number);
    if (task !== undefined) this.#tasks.set(number, { ...task, request: undefined });
    const answers = this.#answers.get(number);
    for (const { item, record } of [...(answers?.values() ?? [])]) answers?.set(item, { item, record });
  }
}

function copied<Name extends string>(
  name: Name,
  bytes: Uint8Array | undefined,
): { readonly [N in Name]?: Uint8Array } {
  return bytes === undefined ? {} : ({ [name]: bytes.slice() } as { readonly [N in Name]?: Uint8Array }); // that one member
}
