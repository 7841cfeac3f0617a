/**
 * Waiting that a caller can give up.
 */

/**
 * Settles as the promise does, or rejects with the signal's reason once that aborts, whichever is first. The work of
 * the promise continues.
 */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  promise.catch(() => undefined); // nobody may be left to hear of it
  signal.throwIfAborted();
  let giveUp = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason);
  });
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
