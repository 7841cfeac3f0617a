/**
 * The loop of a store's thread: opens the store, then does requests in the order of their arrival.
 *
 *   opening -> open -> closed
 *   opening -> closed    (the store is held, damaged, newer, or cannot be made)
 *
 * All that has arrived is taken at once, so that calls made during one sync are committed together in the next.
 */
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { PerigeeError } from "../../errors.ts";
import { isShared, noteLargeBytes } from "../../large_bytes.ts";
import { bytesOf, refusal, type WorkRequest } from "./grouped_requests.ts";
import type { EntryPage, StoreReply, StoreRequest, StoreThreadData } from "./requests.ts";

/** Requests taken from the port at once. */
const REQUESTS_MAX = 1_024;

/** An open store, as its thread has it. */
export interface ThreadStore {
  /** What the operator should know of how it was opened. */
  readonly notes: readonly string[];
  /** Called once its opener knows that it is open. */
  opened(): void;
  /** One reply for each request, in the order of the requests. Never rejects. */
  handle(requests: readonly WorkRequest[]): Promise<StoreReply[]>;
  isSpaceLow(): boolean;
  close(): void | Promise<void>;
}

/** Serves until a request to close. `open` and `close` reject with a `PerigeeError`, which the caller receives. */
export async function serveStore(
  { port, answered }: StoreThreadData,
  open: () => Promise<ThreadStore>,
): Promise<void> {
  const answer = (replies: readonly StoreReply[], isSpaceLow: boolean): void => {
    port.postMessage({ replies, isSpaceLow }, replies.flatMap(buffersOf));
    Atomics.add(answered, 0, 1);
  };
  let store: ThreadStore;
  try {
    store = await open();
  } catch (error) {
    answer([refusal(0, asPerigeeError(error))], false);
    port.close();
    return;
  }
  answer([{ id: 0, ok: true, value: store.notes }], false);
  store.opened();
  const arrived: StoreRequest[] = [];
  let isWorking = false;
  const workOff = async (): Promise<void> => {
    isWorking = true;
    while (arrived.length > 0) {
      const { work, closing } = takeArrived(port, arrived);
      const bytes = work.reduce((sum, request) => sum + movedBytesOf(request), 0);
      if (work.length > 0) answer(await store.handle(work), store.isSpaceLow());
      work.length = 0;
      noteLargeBytes(bytes);
      if (closing === undefined) continue;
      answer([await closed(store, closing.id)], false);
      port.close();
      return;
    }
    isWorking = false;
  };
  port.on("message", (request: StoreRequest) => {
    arrived.push(request);
    if (!isWorking) void workOff(); // it never rejects: what fails is answered
  });
}

async function closed(store: ThreadStore, id: number): Promise<StoreReply> {
  try {
    await store.close();
    return { id, ok: true, value: undefined };
  } catch (error) {
    return refusal(id, asPerigeeError(error));
  }
}

function asPerigeeError(error: unknown): PerigeeError {
  return error instanceof PerigeeError
    ? error
    : new PerigeeError("store_failed", `the store's thread failed: ${String(error)}`, { cause: error });
}

/** What it brings, and is garbage of this thread when it is done. */
function movedBytesOf(request: WorkRequest): number {
  const { outputs } = request.kind === "append" || request.kind === "commitLog" ? request.packed : {};
  const isOwn = outputs === undefined || !isShared(outputs.bytes.buffer);
  return bytesOf(request) - (isOwn ? 0 : outputs.bytes.byteLength);
}

/** All that has arrived, up to a request to close. */
function takeArrived(
  port: MessagePort,
  arrived: StoreRequest[],
): { readonly work: WorkRequest[]; readonly closing: StoreRequest | undefined } {
  const work: WorkRequest[] = [];
  while (work.length < REQUESTS_MAX) {
    const request: StoreRequest | undefined = arrived.shift() ?? receiveMessageOnPort(port)?.message;
    if (request === undefined) break;
    if (request.kind === "close") return { work, closing: request };
    work.push(request);
  }
  return { work, closing: undefined };
}

/** The buffers of a page, which move to the main thread instead of being copied. */
function buffersOf(reply: StoreReply): ArrayBuffer[] {
  if (!reply.ok || typeof reply.value !== "object" || reply.value === null || !("next" in reply.value)) {
    return [];
  }
  const page = reply.value as EntryPage; // only pages have a next one
  return page.entries.map((entry) => entry.records.buffer as ArrayBuffer); // both databases return each blob in its own buffer
}
