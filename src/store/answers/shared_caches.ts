/**
 * The caches of answers that an engine has open: one for each folder, however many runs use it.
 *
 *   opened by the first -> shared -> left by the last -> closed
 */
import { resolve } from "node:path";
import type { AnswerCache, OpenAnswerCache } from "./answer_cache.ts";

interface SharedCache {
  readonly opened: Promise<AnswerCache>;
  users: number;
}

/** Opens as `open` does. Those who open the same folder have the same cache, with the bounds of the first, until the last has closed it. */
export function sharedCaches(open: OpenAnswerCache): OpenAnswerCache {
  const caches = new Map<string, SharedCache>();
  return async (options) => {
    const path = resolve(options.dir);
    const shared = caches.get(path) ?? { opened: open(options), users: 0 };
    caches.set(path, shared);
    shared.users += 1;
    const cache = await shared.opened;
    let closing: Promise<void> | undefined;
    const leave = async (): Promise<void> => {
      shared.users -= 1;
      if (shared.users > 0) return;
      caches.delete(path);
      await cache.close();
    };
    return {
      find: (keys, moments) => cache.find(keys, moments),
      keep: (answer, wallMs) => cache.keep(answer, wallMs),
      close: () => {
        closing ??= leave();
        return closing;
      },
    };
  };
}
