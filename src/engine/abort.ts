/**
 * Waiting that a caller can give up.
 */

/**
 * Settles as the promise does, or rejects with the signal's reason once that aborts, whichever is first. The work of
 * the promise continues; `leave` is called when it is left.
 */
export async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  leave?: () => void,
): Promise<T> {
  if (signal === undefined) return promise;
  promise.catch(() => undefined); // nobody may be left to hear of it
  let giveUp = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => {
      leave?.();
      reject(signal.reason);
    };
  });
  if (signal.aborted) giveUp();
  else signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
