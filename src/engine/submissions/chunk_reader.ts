/**
 * A caller's function that reads the answer of a list's only item while it arrives.
 *
 *   reading -> the list is final
 *   reading -> left (the caller's signal aborts): the provider's stream is cut, and the item ends
 */
import { AnswerTap } from "../../dispatch/answer_tap.ts";
import { PerigeeError } from "../../errors.ts";
import type { Item } from "../../work/item.ts";
import type { JsonObject } from "../../work/json.ts";
import { unlessAborted } from "../abort.ts";
import { guarded } from "../listeners.ts";

/** As an option of a call. */
export interface ChunkOptions {
  /**
   * Called with each part of the answer as it arrives: a `chat.completion.chunk` of OpenAI, whichever provider answers (of the kinds `completion`
   * and `response`, OpenAI's chunk or event). For a list of one item without sla, under whose id no list is stored yet. A provider that does not
   * stream answers without a call of it, and the task has the whole answer in any case. The provider's socket is paused until what it
   * returns has settled; what it throws changes nothing, and the process is warned once. After the first call the item is not
   * repeated: if the stream breaks off, it ends as failed. Aborting `signal` cuts the stream and ends the item with the code `cancelled`. Not with `onProgress`,
   * `cache`, `schema` or `schemaTries`.
   */
  readonly onChunk?: (chunk: JsonObject) => Promise<void> | void;
}

const EXCLUDED = ["onProgress", "cache", "schema", "schemaTries"] as const;

/** One for a list; undefined where nobody reads. Throws `usage` for what cannot be read so. */
export function chunkReader(
  items: readonly Item[],
  options: ChunkOptions & { readonly [name in (typeof EXCLUDED)[number]]?: unknown },
): ChunkReader | undefined {
  const { onChunk } = options;
  if (onChunk === undefined) return undefined;
  if (items.length !== 1 || items[0]?.sla !== undefined)
    throw new PerigeeError("usage", "submit: onChunk is for a list of one item without sla");
  const other = EXCLUDED.find((name) => options[name] !== undefined);
  if (other !== undefined)
    throw new PerigeeError(
      "usage",
      `submit: onChunk cannot be combined with ${other}; leave out one of them`,
    );
  return new ChunkReader(onChunk);
}

/** See `chunkReader`. */
class ChunkReader {
  readonly tap: AnswerTap;

  constructor(onChunk: NonNullable<ChunkOptions["onChunk"]>) {
    const take = guarded("onChunk", onChunk);
    this.tap = new AnswerTap(({ json }) => {
      const taken = take(JSON.parse(json) as JsonObject); // written by the reader of the provider's stream
      return taken === undefined ? undefined : unlessAborted(taken, this.tap.left).catch(() => undefined);
    });
  }

  /** The list is stored: from now on the signal ends it, until it is over. */
  async follow(
    signal: AbortSignal,
    list: { readonly cancel: () => Promise<unknown>; readonly over: Promise<unknown> },
  ): Promise<void> {
    const leave = (): void => {
      this.tap.leave();
      list.cancel().catch(() => undefined); // it has ended, or the engine is closing
    };
    await unlessAborted(list.over, signal, leave).catch(() => undefined); // reported where it is waited for
  }
}
