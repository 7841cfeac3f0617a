/** Repeated POSTs with one key, at once, later, and after a crash between any two steps. */
import { beforeEach, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { Idempotency, type KeyedRequest, type KeyedWork } from "../../src/service/http/idempotency.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

let clock: FakeClock;
let store: Store;
let idempotency: Idempotency;
/** What is durable. */
let tasks: Map<string, string>;

beforeEach(() => {
  clock = new FakeClock();
  store = createMemoryStore();
  idempotency = new Idempotency({ clock, store });
  tasks = new Map();
});

function request(given: Partial<KeyedRequest> = {}): KeyedRequest {
  return { project: "one", key: "k", about: ["POST", "/v0/infer/", ""], body: bytes("[1]"), ...given };
}

const work: KeyedWork<string> = {
  make: async (id, body) => {
    const text = await read(body);
    tasks.set(id, text);
    return `${id}=${text}`;
  },
  find: async (id) => {
    const text = tasks.get(id);
    return text === undefined ? undefined : `${id}=${text}`;
  },
};

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

async function* streamed(...parts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield bytes(part);
}

async function read(body: Uint8Array | AsyncIterable<Uint8Array>): Promise<string> {
  if (body instanceof Uint8Array) return Buffer.from(body).toString();
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe("a repeated request", () => {
  it("gets the same task, whether its body arrived whole or in other parts", async () => {
    const first = await idempotency.once(request(), work);
    expect(first.isReplayed).toBe(false);
    for (const body of [bytes("[1]"), streamed("[", "1]"), streamed("[1", "", "]")])
      expect(await idempotency.once(request({ body }), work)).toEqual({
        value: first.value,
        isReplayed: true,
      });
    const streamedFirst = await idempotency.once(request({ key: "s", body: streamed("[2", "]") }), work);
    expect(await idempotency.once(request({ key: "s", body: bytes("[2]") }), work)).toEqual({
      value: streamedFirst.value,
      isReplayed: true,
    });
    expect(tasks.size).toBe(2);
  });

  it("is refused when it is another one, and makes nothing", async () => {
    await idempotency.once(request(), work);
    const others: Partial<KeyedRequest>[] = [
      { body: bytes("[1] ") },
      { body: streamed("[2]") },
      { about: ["POST", "/v0/infer/", "jsonl"] },
      { about: ["POST", "/v1/batches", ""] },
    ];
    for (const other of others)
      await expect(idempotency.once(request(other), work)).rejects.toMatchObject({
        code: "idempotency_mismatch",
      });
    expect(tasks.size).toBe(1);
  });

  it("is another one in another project, and 24 hours later", async () => {
    await idempotency.once(request(), work);
    expect((await idempotency.once(request({ project: "two" }), work)).isReplayed).toBe(false);
    clock.jumpWall(86_399_999);
    expect((await idempotency.once(request(), work)).isReplayed).toBe(true);
    clock.jumpWall(1);
    expect((await idempotency.once(request({ body: bytes("[3]") }), work)).isReplayed).toBe(false);
    expect((await idempotency.once(request({ body: bytes("[3]") }), work)).isReplayed).toBe(true);
  });

  it("is not found when its task was removed, and does not make another", async () => {
    await idempotency.once(request(), work);
    tasks.clear();
    await expect(idempotency.once(request(), work)).rejects.toMatchObject({ code: "not_found" });
    expect(tasks.size).toBe(0);
  });

  it("may come again with its key when the first one failed", async () => {
    const failing: KeyedWork<string> = {
      ...work,
      make: async () => {
        throw new PerigeeError("sla_infeasible", "too short");
      },
    };
    await expect(idempotency.once(request(), failing)).rejects.toMatchObject({ code: "sla_infeasible" });
    expect(await store.records("one", { collection: "idempotency", limit: 9 })).toEqual([]);
    expect((await idempotency.once(request({ body: bytes("[4]") }), work)).isReplayed).toBe(false);
  });

  it("needs a key that can be one", async () => {
    for (const key of ["", "a".repeat(256), "ä", "a\u0000"])
      await expect(idempotency.once(request({ key }), work)).rejects.toMatchObject({
        code: "invalid_request",
      });
  });
});

describe("fault 88: fifty equal requests at once", () => {
  it("make one task; the others are asked to repeat, and then get it", async () => {
    const answers = await Promise.allSettled(
      Array.from({ length: 50 }, () => idempotency.once(request(), work)),
    );
    const done = answers.filter((answer) => answer.status === "fulfilled");
    expect(done).toHaveLength(1);
    for (const answer of answers)
      if (answer.status === "rejected")
        expect(answer.reason).toMatchObject({ code: "idempotency_in_progress" });
    expect(tasks.size).toBe(1);
    expect((await idempotency.once(request(), work)).isReplayed).toBe(true);
    expect(tasks.size).toBe(1);
  });
});

describe("a crash", () => {
  const crash = new Error("crash");

  /** Lets `steps` durable steps of a request happen and then nothing more; true when it came to its end. */
  async function runUntil(steps: number, body: KeyedRequest["body"]): Promise<boolean> {
    let left = steps;
    const step = (): void => {
      if (left-- <= 0) throw crash;
    };
    const crashing = new Idempotency({
      clock,
      store: {
        ...store,
        record: store.record.bind(store),
        records: store.records.bind(store),
        change: async (changes) => {
          step();
          await store.change(changes);
        },
      },
    });
    const made: KeyedWork<string> = {
      find: async () => {
        throw crash;
      },
      make: async (id, given) => {
        const text = await read(given);
        step();
        tasks.set(id, text);
        return "";
      },
    };
    try {
      await crashing.once(request({ body }), made);
      return true;
    } catch (error) {
      if (error !== crash) throw error;
      return false;
    }
  }

  for (const [kind, body] of [
    ["whole", () => bytes("[1]")],
    ["streamed", () => streamed("[", "1]")],
  ] as const) {
    it(`between any two steps of a ${kind} body leaves one task, or a free key`, async () => {
      let isDone = false;
      for (let steps = 0; !isDone; steps += 1) {
        store = createMemoryStore();
        tasks = new Map();
        isDone = await runUntil(steps, body());
        idempotency = new Idempotency({ clock, store });
        const hadTask = tasks.size === 1;
        const again = await idempotency.once(request({ body: body() }), work);
        expect(again.isReplayed, `after ${steps} steps`).toBe(hadTask);
        expect(tasks.size).toBe(1);
        expect(again.value).toBe(`${[...tasks.keys()][0]}=[1]`);
        await expect(idempotency.once(request({ body: bytes("x") }), work)).rejects.toMatchObject({
          code: "idempotency_mismatch",
        });
        expect(steps).toBeLessThan(10);
      }
    });
  }
});
