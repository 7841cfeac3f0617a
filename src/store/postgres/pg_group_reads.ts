/**
 * Reads of one group, sent with its transaction and not in it: they cannot fail it, nor it them.
 *
 *   early -> sent before `BEGIN`         those that came before the first write
 *   late  -> sent behind each `COMMIT`   those that came after it, and see what was written before them
 *   sent  -> found, or failed -> repeated by itself
 */
import { doneBy, type GroupedRead, type GroupedRequest, isRead } from "../packed/grouped_requests.ts";
import type { StoreReply } from "../packed/requests.ts";
import type { PgTables } from "./pg_tables.ts";

/** Of a transaction that failed before its `COMMIT`. */
const UNSENT: Promise<never> = Promise.reject(new Error("not sent"));
UNSENT.catch(() => undefined);

/** One for a group. */
export class GroupReads {
  readonly #tables: PgTables;
  readonly #late: readonly GroupedRead[];
  /** What was sent last for each of them. */
  readonly #sent = new Map<GroupedRead, Promise<unknown>>();

  /** Sends the early ones. */
  constructor(tables: PgTables, group: readonly GroupedRequest[]) {
    this.#tables = tables;
    const first = group.findIndex((request) => !isRead(request));
    const place = first < 0 ? group.length : first;
    this.#late = group.slice(place).filter(isRead);
    for (const read of this.#late) this.#sent.set(read, UNSENT);
    this.#send(group.slice(0, place).filter(isRead));
  }

  /** Call it behind each `COMMIT`: what a transaction found that was rolled back does not count. */
  sendLate(): void {
    this.#send(this.#late);
  }

  /** Resolves when none is under way: its next statement would be part of a transaction that waits for answers. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#sent.values());
  }

  /** `repeated` does one that has failed. */
  replies(repeated: (read: GroupedRead) => Promise<StoreReply>): Promise<StoreReply[]> {
    return Promise.all(
      [...this.#sent].map(async ([read, sent]) => {
        const [found] = await Promise.allSettled([sent]);
        return found.status === "fulfilled" ? { id: read.id, ok: true, value: found.value } : repeated(read);
      }),
    );
  }

  #send(reads: readonly GroupedRead[]): void {
    for (const read of reads) {
      const sent = doneLater(() => doneBy(this.#tables, read));
      sent.catch(() => undefined); // `replies` sees it
      this.#sent.set(read, sent);
    }
  }
}

/** Also what is thrown at once rejects. */
async function doneLater(work: () => unknown): Promise<unknown> {
  return work();
}
