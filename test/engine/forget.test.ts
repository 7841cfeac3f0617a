/**
 * Forgetting: a caller is done with a task, and its rows and files go.
 */
import { describe, expect, it } from "vitest";
import type { StoredTask } from "../../src/store/store.ts";
import { dataFiles } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, status, World } from "./world.ts";

const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});

/** What the store holds, once no engine has it. */
async function stored(world: World): Promise<readonly StoredTask[]> {
  const store = await world.store.open();
  const tasks = await store.tasks({ limit: 1_000 });
  await store.close();
  return tasks;
}

describe("a run that is forgotten", () => {
  it("has no file in the data folder, and starts from the beginning when it is called again", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const options = { id: "nightly", ordered: true };
    const first = await world.settle(engine.run(INPUT, options).finished);
    await world.settle(engine.forget(first.task_id));
    expect(dataFiles(world)).toEqual([]);
    await expect(world.settle(engine.forget(first.task_id))).rejects.toMatchObject({ code: "not_found" });
    const second = await world.settle(engine.run(INPUT, options).finished);
    expect(second).toMatchObject({ counts: { completed: 3 }, requests_sent: 3 });
    expect(second.task_id).not.toBe(first.task_id);
    await world.settle(engine.close());
  });

  it("leaves its output where the caller wanted it", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(engine.forget(task_id));
    expect(world.output()).toHaveLength(3);
    await world.settle(engine.close());
  });

  it("may have been stopped: what was kept to continue it is deleted", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    const source = (): Uint8Array[] => [1, 2, 3].map((line) => Buffer.from(itemLine(line)));
    const engine = await world.engine();
    const run = engine.run(source(), { id: "nightly", ordered: true });
    await world.clock.advance(15);
    run.stop();
    const { task_id } = await world.settle(run.finished);
    await world.settle(engine.forget(task_id));
    expect(dataFiles(world)).toEqual([]);
    await world.settle(engine.close());
  });

  it("is not at work, and is known", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 5_000 });
    world.input(3);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.settle(run.opened);
    run.stop();
    const { task_id } = await world.settle(run.finished);
    const again = engine.run(INPUT, { out: OUTPUT });
    await world.settle(again.opened);
    await expect(world.settle(engine.forget(task_id))).rejects.toMatchObject({ code: "conflict" });
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 3 } });
    const nobody = engine.forget("00000000-0000-4000-8000-000000000000");
    await expect(world.settle(nobody)).rejects.toMatchObject({ code: "not_found" });
    await world.settle(engine.close());
    expect(() => engine.forget(task_id)).toThrow("closed");
  });

  it("has no row in the store once its requests count against no limit any more", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const ids: string[] = [];
    for (const id of ["a", "b"]) ids.push((await world.settle(engine.run(INPUT, { id }).finished)).task_id);
    await world.settle(engine.forget(ids[0] as string));
    await world.clock.advance(62_000);
    await world.settle(engine.forget(ids[1] as string));
    await world.settle(engine.close());
    expect((await stored(world)).map(({ id }) => id)).toEqual([ids[1]]);
    await world.clock.advance(62_000);
    await world.settle((await world.engine()).close());
    expect(await stored(world)).toEqual([]);
  });

  it("keeps its rows until its files are deleted, which the next start does", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.run(INPUT, { id: "a" }).finished);
    world.disk.failNext("remove", "EIO");
    await expect(world.settle(engine.forget(task_id))).rejects.toMatchObject({ code: "store_failed" });
    await world.clock.advance(62_000);
    await world.settle(engine.close());
    expect(dataFiles(world)).toHaveLength(1);
    await world.settle((await world.engine()).close());
    expect(dataFiles(world)).toEqual([]);
    expect(await stored(world)).toEqual([]);
  });

  it("still counts against the limits of an engine that is opened right afterwards", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 6 } } } });
    world.input(6);
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.run(INPUT, { id: "a" }).finished);
    await world.settle(engine.forget(task_id));
    await world.settle(engine.close());
    const again = await world.engine();
    await world.settle(again.run(INPUT, { id: "b" }).finished);
    await world.settle(again.close());
    const times = world.sent.map(({ atMs }) => atMs);
    for (let index = 6; index < times.length; index += 1)
      expect((times[index] as number) - (times[index - 6] as number)).toBeGreaterThanOrEqual(60_000);
  });
});

describe("a submitted list that is forgotten", () => {
  it("is not found any more, nor are its objects, and no file of it is left", async () => {
    const world = new World();
    const engine = await world.engine();
    const kept = await world.settle(engine.submit([item(7)]));
    const before = dataFiles(world);
    const { task_id } = await world.settle(engine.submit([item(1), item(2, 60), item(3, 120)]));
    await world.clock.advance(1_000);
    const { objects } = await world.settle(engine.task(task_id));
    expect(objects.map(({ status }) => status)).toEqual(["completed", "completed", "completed"]);
    await world.settle(engine.forget(task_id));
    for (const look of [
      (): Promise<unknown> => engine.task(task_id),
      () => engine.object(objects[1]?.object_id ?? ""),
      () => engine.forget(task_id),
    ])
      await expect(world.settle(look())).rejects.toMatchObject({ code: "not_found" });
    expect(dataFiles(world)).toEqual(before);
    expect(await world.settle(engine.task(kept.task_id))).toEqual(kept);
    await world.clock.advance(62_000);
    await world.settle(engine.close());
    const again = await world.engine();
    expect(await world.settle(again.task(kept.task_id))).toEqual(kept);
    await world.settle(again.close());
    expect(await stored(world)).toEqual([]); // the kept list is a row of the work log
  });

  it("is not at work", async () => {
    const world = new World({ latencyMs: 5_000 });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1, 60)]));
    await expect(world.settle(engine.forget(task_id))).rejects.toMatchObject({ code: "conflict" });
    await world.clock.advance(6_000);
    await world.settle(engine.forget(task_id));
    expect(dataFiles(world)).toEqual([]);
    await world.settle(engine.close());
  });

  describe.each([
    ["posted", {}],
    ["answered by runs", { onProgress: () => undefined }],
  ])("%s", (_, options) => {
    const codes = { codes: ["invalid_request"] as const };

    it("is not at work when it was just answered, as one whose objects are final", async () => {
      const world = new World({ commitMs: 20 });
      const engine = await world.engine();
      const forget = ({ task_id }: { readonly task_id: string }) => engine.forget(task_id);
      await world.settle(engine.submit([item(1), item(2)], options).then(forget));
      await world.settle(engine.submit([item(3, 60), item(4, 60)], options).finished.then(forget));
      world.answer = () => status(400);
      const { task_id } = await world.settle(engine.submit([item(5), item(6)], options));
      await world.settle(
        engine
          .retryTask(task_id, codes)
          .then(() => engine.retryTask(task_id, codes))
          .then(forget),
      );
      expect(world.sent).toHaveLength(10);
      await world.settle(engine.close());
      expect(dataFiles(world)).toEqual([]);
    });

    it("is not at work once it is shown as completed, while its end is still being written", async () => {
      const world = new World({ commitMs: 20 });
      const engine = await world.engine();
      let { task_id, status: shown } = await world.settle(engine.submit([item(1, 60), item(2, 60)], options));
      while (shown === "submitted") {
        await world.clock.advance(1);
        ({ task_id, status: shown } = await world.settle(engine.task(task_id)));
      }
      await world.settle(engine.forget(task_id));
      await world.settle(engine.close());
      expect(dataFiles(world)).toEqual([]);
    });
  });

  it("is forgotten whole or not at all, wherever its process dies", async () => {
    const ends = new Set<number>();
    for (let operations = 0; operations <= 12; operations += 1) {
      const world = new World();
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const { task_id } = await world.settle(engine.submit([item(1, 60), item(2, 120)]));
      await world.clock.advance(1_000);
      const commits = world.store.commits;
      const before = world.disk.operationsDone;
      const died = (): boolean =>
        world.store.commits - commits + world.disk.operationsDone - before >= operations;
      const forgotten = engine.forget(task_id).catch(() => undefined);
      for (let turn = 0; turn < 1_000 && !died(); turn += 1) await Promise.resolve();
      process.kill();
      world.kill({ powerCut: true });
      await forgotten;
      const again = await world.engine();
      await world.clock.advance(1_000);
      const found = await world.settle(again.task(task_id).catch(() => undefined));
      ends.add(found?.counts.completed ?? 0);
      if (found === undefined) expect(dataFiles(world), `${operations}`).toEqual([]);
      expect(world.sent, `${operations}`).toHaveLength(2);
      await world.clock.advance(62_000);
      await world.settle(again.close());
      await world.settle((await world.engine()).close());
      expect((await stored(world)).length, `${operations}`).toBe(found === undefined ? 0 : 3);
    }
    expect([...ends].sort()).toEqual([0, 2]);
  });
});
