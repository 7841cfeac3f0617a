import { expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { SharedReads } from "../../src/service/http/shared_reads.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";

/** Reads that end when the test says so. */
function reads() {
  const begun: { name: string; resolve: (view: TaskView) => void; reject: (error: unknown) => void }[] = [];
  const shared = new SharedReads({
    task: (project, id) =>
      new Promise((resolve, reject) => {
        begun.push({ name: `${project} ${id}`, resolve, reject });
      }),
  });
  return { begun, shared };
}

const view = (version: string): TaskView => ({ version }) as TaskView; // nothing else is looked at

it("reads a task once for the first caller, and once more for all that arrived meanwhile", async () => {
  const { begun, shared } = reads();
  const first = shared.task("one", "a");
  const others = Array.from({ length: 100 }, () => shared.task("one", "a"));
  expect(begun).toHaveLength(1);
  begun[0]?.resolve(view("v1"));
  expect((await first).version).toBe("v1");
  await expect.poll(() => begun.length).toBe(2);
  const late = shared.task("one", "a");
  begun[1]?.resolve(view("v2"));
  for (const other of others) expect((await other).version).toBe("v2");
  await expect.poll(() => begun.length).toBe(3);
  begun[2]?.resolve(view("v3"));
  expect((await late).version).toBe("v3");
});

it("never shares between projects, and passes a refusal only to those who waited for it", async () => {
  const { begun, shared } = reads();
  const own = shared.task("one", "a");
  const foreign = shared.task("two", "a");
  expect(begun.map(({ name }) => name)).toEqual(["one a", "two a"]);
  const second = shared.task("one", "a");
  begun[0]?.reject(new PerigeeError("not_found", "gone"));
  await expect(own).rejects.toMatchObject({ code: "not_found" });
  await expect.poll(() => begun.length).toBe(3);
  begun[2]?.resolve(view("v1"));
  expect((await second).version).toBe("v1");
  begun[1]?.resolve(view("v9"));
  expect((await foreign).version).toBe("v9");
});

it("keeps nothing once all have their answer", async () => {
  const { begun, shared } = reads();
  for (let n = 0; n < 3; n += 1) {
    const read = shared.task("one", "a");
    begun[n]?.resolve(view(`v${n}`));
    expect((await read).version).toBe(`v${n}`);
  }
  expect(begun).toHaveLength(3);
});
