/**
 * The law of a partition's disk: whatever is written, cut, renamed, gathered and lost, a file holds what was written last, and after its owner
 * has died what was synced, or what was written since.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { DiskFile } from "../../../src/disk.ts";
import type { FileSizes } from "../../../src/store/objects/file_sizes.ts";
import { openPartitionDisk, type PartitionDisk } from "../../../src/store/objects/partition_disk.ts";
import { FakeClock } from "../../../src/testing/fake_clock.ts";
import { MemoryObjects, PartitionRows } from "./partition_world.ts";

/** Small, so that rows, objects and gatherings come soon. */
const SIZES: FileSizes = { row: 8, largeMin: 24, object: 40, gathered: 50, gatheredRows: 12, runMin: 12 };
const NAMES = ["a", "b", "c"] as const;
const ROOT = "/perigee/1";

type Name = (typeof NAMES)[number];

type Step =
  | { readonly kind: "write"; readonly name: Name; readonly at: number; readonly length: number }
  | { readonly kind: "append"; readonly name: Name; readonly length: number }
  | { readonly kind: "truncate"; readonly name: Name; readonly size: number }
  | { readonly kind: "sync" | "reopen"; readonly name: Name }
  | { readonly kind: "remove"; readonly name: Name }
  | { readonly kind: "rename"; readonly name: Name; readonly to: Name }
  | { readonly kind: "crash" }
  | { readonly kind: "pause" }
  | { readonly kind: "down" };

const name = fc.constantFrom(...NAMES);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      name,
      length: fc.integer({ min: 0, max: 30 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("write" as const),
      name,
      at: fc.integer({ min: 0, max: 120 }),
      length: fc.integer({ min: 0, max: 70 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("truncate" as const),
      name,
      size: fc.integer({ min: 0, max: 130 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom("sync" as const, "reopen" as const), name }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("remove" as const), name }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("rename" as const), name, to: name }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom("crash" as const, "pause" as const, "down" as const) }),
  },
);

/** What a file may hold: the last of its states is what it holds, those before what it held since its last sync. */
type States = Buffer[];

class World {
  readonly rows = new PartitionRows();
  readonly objects = new MemoryObjects();
  readonly model = new Map<Name, States>();
  readonly open = new Map<Name, DiskFile>();
  readonly clock = new FakeClock();
  disk!: PartitionDisk;
  #next = 0;

  async start(): Promise<void> {
    const { objects, clock } = this;
    this.disk = await openPartitionDisk({
      ...{ store: { files: this.rows.take() }, objects, root: ROOT, clock, sizes: SIZES },
    });
  }

  async file(name: Name): Promise<DiskFile> {
    const found = this.open.get(name) ?? (await this.disk.open(`${ROOT}/${name}`, "write"));
    this.open.set(name, found);
    if (!this.model.has(name)) this.model.set(name, [Buffer.alloc(0)]);
    return found;
  }

  /** Never the same twice in a row, never 0. */
  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => (this.#next++ % 255) + 1));
  }

  change(name: Name, change: (content: Buffer) => Buffer): void {
    const states = this.model.get(name) as States; // it was opened
    states.push(change(states.at(-1) as Buffer));
  }

  settle(name: Name): void {
    const states = this.model.get(name) as States; // it was opened
    states.splice(0, states.length - 1);
  }

  async check(): Promise<void> {
    for (const name of NAMES) {
      const content = await this.content(name);
      expect(content?.toString("hex"), name).toBe(this.model.get(name)?.at(-1)?.toString("hex"));
    }
    expect([...(await this.disk.list(ROOT))].toSorted()).toEqual([...this.model.keys()].toSorted());
  }

  async content(name: Name): Promise<Buffer | undefined> {
    const path = `${ROOT}/${name}`;
    const found = await this.disk.stat(path);
    if (found === undefined) return undefined;
    const file = await this.disk.open(path, "read");
    const into = Buffer.alloc(1_000);
    const length = await file.read(into, 0);
    const from = Math.floor(length / 3);
    const part = Buffer.alloc(7);
    expect(part.subarray(0, await file.read(part, from))).toEqual(
      into.subarray(0, length).subarray(from, from + 7),
    );
    expect(length).toBe(found.sizeBytes);
    await file.close();
    return into.subarray(0, length);
  }

  /** Another process takes the partition: nothing that was not stored is there. */
  async crash(): Promise<void> {
    const before = this.disk;
    const handles = [...this.open.values()];
    this.open.clear();
    await this.start();
    for (const handle of handles) {
      await handle.write(Buffer.from("zombie"), 0).catch(() => undefined);
      await expect(handle.sync()).rejects.toMatchObject({ code: "store_failed" });
      await handle.close().catch(() => undefined);
    }
    await before.close();
    for (const [name, states] of this.model) {
      const content = await this.content(name);
      const last = states.at(-1)?.toString("hex");
      expect(isMixOf(states, content), `${name}: ${content?.toString("hex")}, last ${last}`).toBe(true);
      this.model.set(name, [content as Buffer]);
    }
  }
}

/** Each byte, and the size, as in one of the states. */
function isMixOf(states: States, content: Buffer | undefined): boolean {
  if (content === undefined || !states.some(({ length }) => length === content.length)) return false;
  return [...content].every((byte, index) => states.some((state) => (state[index] ?? 0) === byte));
}

function written(content: Buffer, at: number, bytes: Buffer): Buffer {
  if (bytes.length === 0) return content;
  const next = Buffer.alloc(Math.max(content.length, at + bytes.length));
  content.copy(next);
  bytes.copy(next, at);
  return next;
}

async function done(world: World, step: Step): Promise<void> {
  if (step.kind === "crash") return world.crash();
  if (step.kind === "down") {
    world.objects.isDown = !world.objects.isDown;
    return;
  }
  if (step.kind === "pause") {
    await world.disk.close(); // gathering ends
    return world.check();
  }
  if (step.kind === "remove") {
    await world.disk.remove(`${ROOT}/${step.name}`);
    await world.open.get(step.name)?.close();
    world.open.delete(step.name);
    world.model.delete(step.name);
    return;
  }
  const file = await world.file(step.name);
  if (step.kind === "write" || step.kind === "append") {
    const bytes = world.bytes(step.length);
    const at = step.kind === "write" ? step.at : await file.sizeBytes();
    const written_ = file.write(bytes, at);
    world.change(step.name, (content) => written(content, at, bytes));
    await written_;
  } else if (step.kind === "truncate") {
    await file.truncate(step.size);
    world.change(step.name, (content) =>
      Buffer.concat([content.subarray(0, step.size), Buffer.alloc(Math.max(0, step.size - content.length))]),
    );
  } else if (step.kind === "rename") {
    if (step.to === step.name) return;
    await world.disk.rename(`${ROOT}/${step.name}`, `${ROOT}/${step.to}`);
    await world.open.get(step.to)?.close();
    world.open.delete(step.name);
    world.open.set(step.to, file);
    world.model.set(step.to, world.model.get(step.name) as States); // it was opened
    world.model.delete(step.name);
    world.settle(step.to);
  } else {
    if (step.kind === "sync") await file.sync();
    else {
      await file.close();
      world.open.delete(step.name);
    }
    world.settle(step.name);
  }
}

it("a file holds what was written last, and what was synced after a crash, under any steps", async () => {
  let gathered = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
      const world = new World();
      await world.start();
      for (const one of steps) await done(world, one);
      world.objects.isDown = false;
      await world.check();
      await world.crash();
      await world.check();
      gathered += world.objects.puts;
      const named = new Set(world.rows.segments.flatMap(({ object }) => object ?? []));
      for (const object of named) expect(world.objects.stored.has(object), object).toBe(true);
    }),
    { numRuns: 150 },
  );
  expect(gathered).toBeGreaterThan(500); // objects took part
});
