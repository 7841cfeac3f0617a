/**
 * The errors of a run for people: by code, with the message of the first line of each.
 *
 * One pass over the journal and one read of the output for each code, so that a million lines take about a second.
 */
import type { DiskFile } from "../../disk.ts";
import type { FailureCode } from "../../errors.ts";
import { asBuffer, eachLine } from "../../jsonl/lines.ts";
import { readBlocks } from "../../jsonl/read.ts";
import { isObject } from "../../work/json.ts";
import { type SettledLine, settledLines } from "../files/settled_lines.ts";
import { isOfInput, type TaskBody } from "../files/task_body.ts";
import { answersPath } from "../files/task_files.ts";
import type { RunFiles } from "../journal/storage.ts";

/** Far above what an answer of 32 MiB takes in JSON. */
const OUTPUT_LINE_BYTES_MAX = 256 * 1024 * 1024;
const NO_OUTPUT = '"output":null';

/** Lines that ended with one code. */
export interface ErrorGroup {
  readonly code: FailureCode;
  readonly count: number;
  /** The first of them in the input, from 1; null where the keys of all are no longer in the input. */
  readonly first_line: number | null;
  /** Its key; null where it has none that can be read. */
  readonly first_key: string | null;
  /** The message of that line, the provider's where it refused. */
  readonly message: string;
}

/** The errors of a run. */
export async function readErrors(files: RunFiles, taskId: string, body: TaskBody): Promise<ErrorGroup[]> {
  const groups = new ErrorGroups();
  for await (const line of settledLines(files.store, taskId, body)) groups.add(line);
  return groups.read(files, taskId, body);
}

/** Groups the lines that it receives. */
export class ErrorGroups {
  readonly #groups = new Map<FailureCode, { count: number; first: SettledLine }>();

  /** Answered lines are left out. */
  add(line: SettledLine): void {
    const { code } = line.outcome;
    if (code === undefined) return;
    const group = this.#groups.get(code);
    if (group === undefined) this.#groups.set(code, { count: 1, first: line });
    else {
      group.count += 1;
      if (line.outcome.line < group.first.outcome.line) group.first = line;
    }
  }

  /** Most frequent first. A line that cannot be read has no message. */
  async read(files: RunFiles, taskId: string, body: TaskBody): Promise<ErrorGroup[]> {
    if (this.#groups.size === 0) return [];
    const messages = await this.#messages(files, taskId, body);
    return [...this.#groups]
      .sort(([, a], [, b]) => b.count - a.count || a.first.outcome.line - b.first.outcome.line)
      .map(([code, { count, first }]) => {
        const { line } = first.outcome;
        const first_line = isOfInput(body, line) ? line : null;
        const { key = null, message = "" } = messages.get(code) ?? {};
        return { code, count, first_line, first_key: key, message };
      });
  }

  /** Of the first line of each. Lines that were put in order are at another place than they were written. */
  async #messages(files: RunFiles, taskId: string, body: TaskBody): Promise<Messages> {
    const written = answersPath(files, taskId, body);
    const isWritten = !body.isOrdered || (await files.disk.stat(written)) !== undefined;
    const answers = await files.disk.open(isWritten ? written : body.out, "read").catch(() => undefined);
    try {
      if (isWritten || answers === undefined) {
        const firsts = [...this.#groups.values()].map(({ first }) => first);
        return await messagesAt(firsts, answers);
      }
      return await messagesIn(answers, new Set(this.#groups.keys()));
    } finally {
      await answers?.close();
    }
  }
}

/** What the first line of each code says. */
type Messages = ReadonlyMap<string, WrittenError>;

interface WrittenError {
  readonly code: string;
  readonly message: string;
  readonly key?: string;
}

async function messagesAt(lines: readonly SettledLine[], answers: DiskFile | undefined): Promise<Messages> {
  const messages = new Map<string, WrittenError>();
  for (const line of lines) {
    const error = errorIn(await bytesOf(line, answers));
    if (error !== undefined) messages.set(error.code, error);
  }
  return messages;
}

/** Reads an output in the order of the input until the first line of each code is found. */
async function messagesIn(answers: DiskFile, wanted: Set<string>): Promise<Messages> {
  const messages = new Map<string, WrittenError>();
  for await (const event of readBlocks(answers, { lineBytesMax: OUTPUT_LINE_BYTES_MAX })) {
    if (event.kind === "refused") continue;
    const bytes = asBuffer(event.block.bytes);
    eachLine(bytes, (start, end) => {
      const line = bytes.subarray(start, end);
      const error = line.includes(NO_OUTPUT) ? errorIn(line) : undefined;
      if (error !== undefined && wanted.delete(error.code)) messages.set(error.code, error);
    });
    if (wanted.size === 0) break;
  }
  return messages;
}

async function bytesOf(line: SettledLine, answers: Pick<DiskFile, "read"> | undefined): Promise<Uint8Array> {
  if ("held" in line) return line.held;
  const bytes = new Uint8Array(line.outcome.lineBytes);
  return bytes.subarray(0, (await answers?.read(bytes, line.start)) ?? 0);
}

function errorIn(line: Uint8Array): WrittenError | undefined {
  try {
    const value: unknown = JSON.parse(asBuffer(line).toString());
    if (!isObject(value) || !isObject(value["error"])) return undefined;
    const { code, message } = value["error"];
    if (typeof code !== "string" || typeof message !== "string") return undefined;
    const key = value["key"] ?? value["custom_id"]; // the latter in OpenAI's layout
    return { code, message, ...(typeof key === "string" ? { key } : {}) };
  } catch {
    return undefined;
  }
}
