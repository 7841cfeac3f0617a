/** KeyedMutex: the order of its steps, and what it keeps of them. */
import { describe, expect, it } from "vitest";
import { KeyedMutex } from "../src/keyed_mutex.ts";

describe("steps that take turns", () => {
  it("run one after the other under one name, also after one that failed", async () => {
    const turns = new KeyedMutex();
    const seen: string[] = [];
    const step = (name: string) => async () => {
      seen.push(`${name} begins`);
      await Promise.resolve();
      seen.push(`${name} ends`);
      if (name === "first") throw new Error("first failed");
    };
    const first = turns.take("task", step("first"));
    const second = turns.take("task", step("second"));
    await expect(first).rejects.toThrow("first failed");
    await second;
    expect(seen).toEqual(["first begins", "first ends", "second begins", "second ends"]);
  });

  it("run in parallel under different names", async () => {
    const turns = new KeyedMutex();
    let release = (): void => undefined;
    const held = turns.take("one", () => new Promise<void>((resolve) => (release = resolve)));
    await expect(turns.take("other", async () => "done")).resolves.toBe("done");
    release();
    await held;
  });

  it("are idle again when all have ended, and nothing is kept of their names", async () => {
    const turns = new KeyedMutex();
    expect(turns.isIdle).toBe(true);
    void turns.take("one", async () => undefined);
    turns.take("two", () => Promise.reject(new Error("two failed"))).catch(() => undefined);
    expect(turns.isIdle).toBe(false);
    await turns.ended();
    expect(turns.isIdle).toBe(true);
  });
});
