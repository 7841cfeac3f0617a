/** Fault 88 over HTTP: POSTs that are repeated with their Idempotency-Key, on the whole service. */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPerigeeService, type PerigeeService } from "../../src/service/index.ts";
import { fakeVerifier } from "./world.ts";

let dataDir: string;
let service: PerigeeService;
let url: string;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-keyed-"));
  await open();
});

afterAll(async () => {
  await service.close();
  rmSync(dataDir, { recursive: true, force: true });
});

async function open(): Promise<void> {
  service = await createPerigeeService({ dataDir, env: {}, verifier: fakeVerifier });
  url = await service.listen({ port: 0 });
}

interface Posted {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly json: { readonly task_id: string; readonly error: { readonly code: string } };
}

async function post(key: string, body: string, given: Record<string, string> = {}): Promise<Posted> {
  const headers = { authorization: "Bearer key-one", "content-type": "application/json", ...given };
  const own = key === "" ? {} : { "idempotency-key": key };
  const response = await fetch(`${url}/v0/infer/`, { method: "POST", headers: { ...headers, ...own }, body });
  const isReplayed = response.headers.get("idempotent-replayed") === "true";
  return { status: response.status, isReplayed, json: (await response.json()) as Posted["json"] };
}

async function taskCount(): Promise<number> {
  const response = await fetch(`${url}/v0/infer/tasks?limit=1000`, {
    headers: { authorization: "Bearer key-one" },
  });
  return ((await response.json()) as { tasks: unknown[] }).tasks.length;
}

function items(count: number, input = "hello"): string {
  return JSON.stringify(Array.from({ length: count }, () => ({ model: "echo:test", input, sla: 60 })));
}

describe("fault 88: a POST that is repeated with its key", () => {
  it("gets the same task, says so, and also after a restart", async () => {
    const first = await post("a", items(2));
    const again = await post("a", items(2));
    expect([first.status, first.isReplayed, again.status, again.isReplayed]).toEqual([200, false, 200, true]);
    expect(again.json.task_id).toBe(first.json.task_id);
    await service.close();
    await open();
    const after = await post("a", items(2));
    expect([after.status, after.isReplayed, after.json.task_id]).toEqual([200, true, first.json.task_id]);
  });

  it("is refused with another body, or asking for another form of answer", async () => {
    await post("b", items(1));
    const answers = [await post("b", items(2)), await post("b", items(1), { "output-format": "jsonl" })];
    for (const { status, json } of answers)
      expect([status, json.error.code]).toEqual([409, "idempotency_mismatch"]);
    expect((await post("b", items(1))).isReplayed).toBe(true);
  });

  it("makes one task of fifty that come at once", async () => {
    const before = await taskCount();
    const answers = await Promise.all(Array.from({ length: 50 }, () => post("c", items(3))));
    expect(await taskCount()).toBe(before + 1);
    const ids = new Set(answers.filter(({ status }) => status === 200).map(({ json }) => json.task_id));
    expect(ids.size).toBe(1);
    for (const { status, json } of answers)
      if (status !== 200) expect([status, json.error.code]).toEqual([409, "idempotency_in_progress"]);
  });

  it("is compared by its bytes, also when its body is streamed", async () => {
    const body = items(3_000, "x".repeat(600));
    expect(body.length).toBeGreaterThan(1024 * 1024);
    const first = await post("d", body);
    const again = await post("d", body);
    expect([first.status, again.status, again.isReplayed]).toEqual([200, 200, true]);
    expect(again.json.task_id).toBe(first.json.task_id);
    const other = await post("d", `${body.slice(0, -1)} ]`);
    expect([other.status, other.json.error.code]).toEqual([409, "idempotency_mismatch"]);
  });

  it("may be mended and come again with its key when it was refused", async () => {
    expect((await post("e", "[]")).status).toBe(422);
    expect((await post("e", JSON.stringify([{ model: "echo:test" }]))).status).toBe(422);
    expect(await post("e", items(1))).toMatchObject({ status: 200, isReplayed: false });
  });

  it("needs a key that can be one, and none at all is fine", async () => {
    expect((await post("k".repeat(256), items(1))).status).toBe(400);
    const [one, other] = [await post("", items(1)), await post("", items(1))];
    expect(one.json.task_id).not.toBe(other.json.task_id);
    const hash = createHash("sha256").update(items(1)).digest("hex");
    expect((await post(hash, items(1))).status).toBe(200);
  });
});
