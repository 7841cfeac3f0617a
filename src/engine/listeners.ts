/**
 * Callbacks: those inside the engine that are called together, and those of its callers.
 */
import { inspect } from "node:util";

/**
 * Callbacks that are called together, in the order in which they were added. One that is added or removed meanwhile counts from the next
 * call on.
 */
export class Listeners<A extends readonly unknown[]> {
  readonly #listeners = new Set<(...args: A) => void>();

  /** Returns how to stop listening. */
  add(listener: (...args: A) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(...args: A): void {
    for (const listener of [...this.#listeners]) listener(...args);
  }
}

/**
 * A caller's listener as it may be called anywhere: what it throws, or rejects with, changes nothing. The process is warned of
 * the first fault, with the listener's name. If the listener returns a promise, the call returns one that resolves when that has settled.
 */
export function guarded<A extends readonly unknown[]>(
  name: string,
  listener: (...args: A) => unknown,
): (...args: A) => Promise<void> | undefined {
  let hasWarned = false;
  const warn = (error: unknown): void => {
    if (hasWarned) return;
    hasWarned = true;
    process.emitWarning(`${name} failed: ${faultText(error)}`, { code: "PERIGEE_LISTENER" });
  };
  return (...args) => {
    try {
      const returned = listener(...args); // its type says void, which an async function satisfies
      if (isThenable(returned)) return Promise.resolve(returned).then(() => undefined, warn);
    } catch (error) {
      warn(error);
    }
    return undefined;
  };
}

/** The options with their listeners guarded. */
export function withGuarded<Options extends object>(
  options: Options,
  names: readonly (keyof Options & string)[],
): Options {
  const listeners: Partial<Record<string, unknown>> = {};
  for (const name of names) {
    const listener: unknown = options[name];
    if (typeof listener === "function")
      listeners[name] = guarded(name, (...args) => listener.apply(options, args));
  }
  return { ...options, ...listeners };
}

/** What a caller's function threw, which can be any value. */
export function faultText(fault: unknown): string {
  return fault instanceof Error ? fault.message : typeof fault === "string" ? fault : inspect(fault);
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
