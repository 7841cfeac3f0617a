/**
 * Who waits for which execution to be final.
 */
import type { ExecutionView } from "../../satellites/sdk/execution.ts";

interface Waiter {
  readonly resolve: (execution: ExecutionView) => void;
  readonly reject: (error: unknown) => void;
}

/** For one run: one waiter for each execution. */
export class Finishes {
  readonly #waiters = new Map<string, Waiter>();

  /** Ids that are waited for. */
  get ids(): readonly string[] {
    return [...this.#waiters.keys()];
  }

  /** Begin before it is submitted, so that its end cannot be earlier; `forget` it afterwards. */
  wait(id: string): Promise<ExecutionView> {
    const finished = new Promise<ExecutionView>((resolve, reject) => {
      this.#waiters.set(id, { resolve, reject });
    });
    finished.catch(() => undefined); // it rejects for those who await it as well
    return finished;
  }

  tell(execution: ExecutionView): void {
    this.#waiters.get(execution.id)?.resolve(execution);
  }

  forget(id: string): void {
    this.#waiters.delete(id);
  }

  /** Ends all waiting. */
  fail(error: unknown): void {
    for (const { reject } of this.#waiters.values()) reject(error);
    this.#waiters.clear();
  }
}
