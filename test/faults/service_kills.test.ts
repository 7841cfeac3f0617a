/**
 * `perigee serve` killed again and again while tasks are submitted, run and looked at: no acknowledged task is lost, no
 * answer comes twice, nothing that was reported is taken back. `PERIGEE_TEST_KILLS` sets how often (default 4).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { createKey, urlOf } from "./killed_service.ts";
import { startThreeProtocols, type ThreeProtocols } from "./three_protocols.ts";

const dir = mkdtempSync(join(tmpdir(), "perigee-kills-"));
const data = join(dir, "data");
const kills = Number(process.env["PERIGEE_TEST_KILLS"] ?? 4);
const LIFE_MS = 1_500;
const IN_FLIGHT = 64;

interface TaskBody {
  readonly task_id: string;
  readonly status: string;
  readonly total_items: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly has_more?: boolean;
  readonly objects: readonly {
    readonly object_id: string;
    readonly status: string;
    readonly output?: { readonly text: string };
  }[];
}

interface Submitted {
  readonly id: string;
  readonly prompts: readonly string[];
}

let provider: ThreeProtocols;
let key: string;

beforeAll(async () => {
  provider = await startThreeProtocols(60);
  key = await createKey(data);
});

afterAll(async () => {
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

async function start(): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", data], {
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      ...process.env,
      PERIGEE_PROVIDER_OPENAI_BASE_URL: `${provider.url}/v1`,
      PERIGEE_PROVIDER_OPENAI_KEY: "k",
      PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
    },
  });
  return { child, url: await urlOf(child) };
}

let nextPrompt = 0;

function promptsOf(count: number): string[] {
  return Array.from({ length: count }, () => {
    nextPrompt += 1;
    return `prompt ${nextPrompt}`;
  });
}

/** Submits until the process dies; notes what was acknowledged. */
async function submitUntilDead(url: string, acknowledged: Submitted[], isDead: () => boolean): Promise<void> {
  for (let post = 0; !isDead(); post += 1) {
    const prompts = promptsOf(post % 10 === 4 ? 1_200 : 1 + (post % 7));
    const items = prompts.map((input, index) => ({
      model: "openai:gpt-4o-mini",
      input,
      sla: post % 3 === 0 && index % 2 === 0 ? 120 : 60,
    }));
    try {
      const answer = await fetch(`${url}/v0/infer/`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(items),
      });
      if (answer.status !== 200) throw new Error(`status ${answer.status}: ${await answer.text()}`);
      const { task_id } = (await answer.json()) as TaskBody;
      acknowledged.push({ id: task_id, prompts });
    } catch (error) {
      if (!isDead() && !(error instanceof TypeError)) throw error;
      return;
    }
    await sleep(40);
  }
}

async function get<T>(url: string, path: string): Promise<T> {
  const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` } });
  expect(answer.status, path).toBe(200);
  return (await answer.json()) as T;
}

async function objectsOf(url: string, id: string): Promise<TaskBody["objects"]> {
  const objects: TaskBody["objects"][number][] = [];
  for (let after = ""; ; ) {
    const query = `?limit=1000${after === "" ? "" : `&after=${after}`}`;
    const page = await get<TaskBody>(url, `/v0/infer/task/${id}${query}`);
    objects.push(...page.objects);
    if (page.has_more !== true) return objects;
    after = objects.at(-1)?.object_id ?? "";
  }
}

/** A number once it does not change any more: a task whose post was cut off by a kill may have been stored, and is answered too. */
async function settledCount(count: () => number): Promise<number> {
  for (let before = -1; before !== count(); ) {
    before = count();
    await sleep(1_000);
  }
  return count();
}

describe("a service that is killed while it works", () => {
  it(
    "loses no acknowledged task, answers each object once, and takes nothing back",
    async () => {
      const acknowledged: Submitted[] = [];
      const completed = new Map<string, number>();
      for (let kill = 0; kill < kills; kill += 1) {
        const { child, url } = await start();
        let isDead = false;
        const posting = submitUntilDead(url, acknowledged, () => isDead);
        for (const { id } of acknowledged.slice(-20)) {
          const { counts } = await get<TaskBody>(url, `/v0/infer/task/${id}?limit=1`);
          expect(counts["completed"], `task ${id}`).toBeGreaterThanOrEqual(completed.get(id) ?? 0);
        }
        await sleep(LIFE_MS * (0.4 + 0.6 * ((kill * 7) % 10) * 0.1));
        for (const { id } of acknowledged.slice(-20)) {
          const { counts } = await get<TaskBody>(url, `/v0/infer/task/${id}?limit=1`);
          completed.set(id, counts["completed"] ?? 0);
        }
        isDead = true;
        child.kill("SIGKILL");
        await once(child, "exit");
        await posting;
      }
      expect(acknowledged.length).toBeGreaterThan(kills);
      const { child, url } = await start();
      const seen = new Set<string>();
      for (const { id, prompts } of acknowledged) {
        let task = await get<TaskBody>(url, `/v0/infer/task/${id}?limit=1`);
        while (task.status !== "completed") {
          await sleep(100);
          task = await get<TaskBody>(url, `/v0/infer/task/${id}?limit=1`);
        }
        expect(task.total_items).toBe(prompts.length);
        const objects = await objectsOf(url, id);
        expect(objects.map((object) => object.output?.text)).toEqual(
          prompts.map((prompt) => `answer: ${prompt}`),
        );
        for (const { object_id } of objects) seen.add(object_id);
      }
      expect(seen.size).toBe(acknowledged.reduce((sum, { prompts }) => sum + prompts.length, 0));
      const sent = await settledCount(() => provider.prompts.length);
      expect(sent - new Set(provider.prompts).size).toBeLessThanOrEqual(kills * IN_FLIGHT);
      child.kill("SIGTERM");
      expect((await once(child, "exit"))[0]).toBe(0);
      const again = await start();
      for (const { id } of acknowledged.slice(0, 20))
        expect(await get<TaskBody>(again.url, `/v0/infer/task/${id}?limit=1`)).toMatchObject({
          status: "completed",
        });
      expect(provider.prompts.length).toBe(sent);
      again.child.kill("SIGTERM");
      await once(again.child, "exit");
    },
    60_000 + kills * 10_000,
  );
});
