import { describe, expect, it } from "vitest";
import { createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { createRandom } from "../../src/testing/random.ts";

const entry = (index: number) => ({ taskId: "a", wallMs: index, records: Uint8Array.of(index) });

describe("the crashable store", () => {
  it("keeps after a crash what was acknowledged, and of the rest a first part that the seed decides", async () => {
    const kept = new Set<number>();
    for (let seed = 0; seed < 40; seed += 1) {
      const clock = new FakeClock();
      const state = createCrashableStore({ clock, commitMs: 5, random: createRandom(seed) });
      const store = await state.open();
      await clock.runUntilSettled(store.append([entry(0)]));
      const doubtful = [1, 2, 3].map((index) => store.append([entry(index)]));
      const settled = Promise.allSettled(doubtful);
      state.crash();
      for (const { status } of await settled) expect(status).toBe("rejected");
      await expect(store.task("a")).rejects.toMatchObject({ code: "store_failed" });
      const next = await state.open();
      const found: number[] = [];
      for await (const { records } of next.journal("a")) found.push(records[0] ?? -1);
      expect(found).toEqual([0, 1, 2, 3].slice(0, found.length));
      kept.add(found.length);
    }
    expect([...kept].toSorted()).toEqual([1, 2, 3, 4]);
  });

  it("makes the next writes fail as asked, without doing them", async () => {
    const state = createCrashableStore();
    const store = await state.open();
    state.failNext("disk_full", 2);
    for (let tries = 0; tries < 2; tries += 1) {
      await expect(store.append([entry(1)])).rejects.toMatchObject({ code: "disk_full" });
    }
    await store.append([entry(1)]);
    expect(state.commits).toBe(1);
    state.failNext("store_failed");
    await expect(store.append([entry(2)])).rejects.toMatchObject({ code: "store_failed" });
    await expect(store.tasks({ limit: 1 })).rejects.toMatchObject({ code: "store_failed" });
    await store.close();
    await (await state.open()).close();
  });

  it("does not let a dead process free what the next one holds", async () => {
    const state = createCrashableStore();
    const dead = await state.open();
    state.crash();
    await state.open();
    await dead.close();
    await expect(state.open()).rejects.toMatchObject({ code: "data_dir_in_use" });
  });
});
