/**
 * A wait that its caller gives up.
 */
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { unlessAborted } from "../../src/engine/abort.ts";

const never = new Promise<string>(() => undefined);

describe("a wait with a signal", () => {
  it("settles as its promise does, and leaves nothing on the signal", async () => {
    const { signal } = new AbortController();
    let left = 0;
    const leave = (): void => {
      left += 1;
    };
    expect(await unlessAborted(Promise.resolve("yes"), signal, leave)).toBe("yes");
    const failed = Promise.reject(new Error("no"));
    await expect(unlessAborted(failed, signal, leave)).rejects.toThrow("no");
    expect(left).toBe(0);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it.each([true, false])(
    "rejects with the reason and is left once, aborted before it (%s)",
    async (isAbortedBefore) => {
      const controller = new AbortController();
      if (isAbortedBefore) controller.abort(new Error("enough"));
      let left = 0;
      const waited = unlessAborted(never, controller.signal, () => {
        left += 1;
      });
      controller.abort(new Error("enough"));
      await expect(waited).rejects.toThrow("enough");
      expect(left).toBe(1);
    },
  );

  it("rejects when it was aborted before, though its promise is settled", async () => {
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(unlessAborted(Promise.resolve("yes"), signal)).rejects.toThrow("enough");
  });
});
