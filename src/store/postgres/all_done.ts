/**
 * Waits for statements of one transaction that were sent together, and resolves with their values. The first one that failed is the cause: the
 * transaction refuses those after it.
 */
export async function allDone<T>(sent: Iterable<Promise<T>>): Promise<T[]> {
  const all: Promise<T>[] = [];
  for (const statement of sent) {
    statement.catch(() => undefined); // where the next one throws before it is sent, nobody waits for this one
    all.push(statement);
  }
  const values: T[] = [];
  for (const done of await Promise.allSettled(all)) {
    if (done.status === "rejected") throw done.reason;
    values.push(done.value);
  }
  return values;
}
