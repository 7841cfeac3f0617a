/**
 * Work on many things at once, with the results in their order.
 */

/** At most `concurrency` under way or waiting to be taken; stops taking more after the first that fails. */
export async function* inOrder<T, R>(
  given: AsyncIterable<T>,
  concurrency: number,
  work: (one: T) => Promise<R>,
): AsyncGenerator<R> {
  const under: Promise<R>[] = [];
  try {
    for await (const one of given) {
      const result = work(one);
      result.catch(() => undefined); // the taker sees it
      under.push(result);
      if (under.length < concurrency) continue;
      const first = under.shift();
      if (first !== undefined) yield await first;
    }
    for (let first = under.shift(); first !== undefined; first = under.shift()) yield await first;
  } finally {
    await Promise.allSettled(under); // so that nothing runs when the caller has ended
  }
}
