/**
 * The answers of a posted task as a file of lines, in the order of submission, as they are durable now.
 *
 * The first pass over the rows computes sizes, the second one reads lines: only a page of them is in memory.
 */
import { type EndedPosted, lineOf, type PostedItemReader } from "../../engine/posted/posted_reader.ts";
import type { PostedRecord } from "../../engine/posted/posted_record.ts";
import { objectId } from "../../work/object_id.ts";
import type { AnsweredLine, OutputView, TaskOutput, TaskView } from "../shapes/task_view.ts";

/** What is durable now, without later answers. */
export async function openPostedOutput(
  reader: PostedItemReader,
  task: PostedRecord,
  { version, status }: TaskView,
  view: OutputView,
): Promise<TaskOutput> {
  const isComplete = status !== "submitted";
  const etag = isComplete ? `${version}-${view}` : undefined;
  if (view !== "all") return { isComplete, bytes: undefined, etag, read: () => readView(reader, task, view) };
  const sizes = new Map<number, number>();
  let bytes = 0;
  for await (const { item, line } of reader.ended(task)) {
    const lineBytes = Buffer.byteLength(line);
    sizes.set(item, lineBytes);
    bytes += lineBytes;
  }
  return { isComplete, bytes, etag, read: (range) => readAll(reader, task, sizes, range) };
}

/** Final items of a view, with what they used. */
export async function* postedAnswers(
  reader: PostedItemReader,
  task: PostedRecord,
  view: OutputView,
): AsyncGenerator<AnsweredLine> {
  for await (const ended of reader.ended(task)) {
    if (!isIn(ended, view)) continue;
    const { item, status, inputTokens, outputTokens } = ended;
    const { key, line: _, output, error, ...facts } = lineOf(ended);
    yield {
      objectId: objectId(task.id, item + 1),
      key,
      status,
      output,
      error: error ?? null,
      usage: { input_tokens: inputTokens, output_tokens: outputTokens },
      facts,
    };
  }
}

function isIn({ status }: EndedPosted, view: OutputView): boolean {
  return view === "all" || (status === "completed") === (view === "answers");
}

async function* readView(
  reader: PostedItemReader,
  task: PostedRecord,
  view: OutputView,
): AsyncGenerator<Uint8Array> {
  for await (const ended of reader.ended(task)) if (isIn(ended, view)) yield Buffer.from(ended.line);
}

async function* readAll(
  reader: PostedItemReader,
  task: PostedRecord,
  sizes: ReadonlyMap<number, number>,
  range: { readonly start: number; readonly end: number } | undefined,
): AsyncGenerator<Uint8Array> {
  let position = 0;
  for await (const { item, line } of reader.ended(task)) {
    const size = sizes.get(item);
    if (size === undefined) continue; // ended after the first pass
    const from = Math.max(0, (range?.start ?? 0) - position);
    const to = Math.min(size, (range?.end ?? Number.POSITIVE_INFINITY) - position);
    position += size;
    if (from < to) yield Buffer.from(line).subarray(from, to);
  }
}
