/**
 * Fault 84: the main thread of `perigee serve` is blocked, by a signal, in a separate process.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MAIN } from "../built.ts";
import { callerOf, submit } from "../service/serving.ts";
import { createKey, urlOf } from "./killed_service.ts";
import { startThreeProtocols, type ThreeProtocols } from "./three_protocols.ts";

const IN_FLIGHT = 16;
const ITEMS = 600;

let dir: string;
let provider: ThreeProtocols;
let authorization: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "perigee-watchdog-"));
  provider = await startThreeProtocols(40);
  authorization = `Bearer ${await createKey(dir)}`;
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

/** A service that does `onSignal` when it is sent SIGUSR2. */
async function start(onSignal: string): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const script = `import{execSync}from'node:child_process';process.on('SIGUSR2',()=>{${onSignal}})`;
  const code = Buffer.from(script).toString("base64");
  const child = spawn(
    process.execPath,
    [MAIN, "serve", "--port", "0", "--data", dir, "--log-level", "error"],
    {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        NODE_OPTIONS: `--import=data:text/javascript;base64,${code}`,
        PERIGEE_WATCHDOG_SECONDS: "1",
        PERIGEE_PROVIDER_OPENAI_BASE_URL: `${provider.url}/v1`,
        PERIGEE_PROVIDER_OPENAI_KEY: "k",
        PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
      },
    },
  );
  children.push(child);
  return { child, url: await urlOf(child) };
}

describe("fault 84: an event loop that is blocked", () => {
  it("ends the process with 70, and the next one goes on without doing anything twice", async () => {
    const { child, url } = await start("for(;;);");
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const items = Array.from({ length: ITEMS }, (_, index) => ({
      model: "openai:gpt-4o-mini",
      input: `prompt ${index}`,
      sla: 60,
    }));
    const { body } = await submit(callerOf(url, authorization), items);
    await vi.waitFor(() => expect(provider.prompts.length).toBeGreaterThan(50), { timeout: 60_000 });
    child.kill("SIGUSR2");
    expect(await once(child, "exit")).toEqual([70, null]);
    expect(stderr).toContain("the main thread was blocked for 1 s");
    expect(provider.prompts.length).toBeLessThan(ITEMS);

    const call = callerOf((await start("")).url, authorization);
    const path = `/v0/infer/task/${body.task_id}?limit=1000`;
    const texts = await vi.waitFor(
      async () => {
        const task = (await call("GET", path)).body as unknown as Answered;
        expect(task.status).toBe("completed");
        return task.objects.map(({ output }) => output.text);
      },
      { timeout: 60_000, interval: 100 },
    );
    expect(texts).toEqual(items.map(({ input }) => `answer: ${input}`));
    expect(provider.prompts.length - new Set(provider.prompts).size).toBeLessThanOrEqual(IN_FLIGHT);
  });

  it("ends the process by force where JavaScript cannot be broken into", async () => {
    const { child } = await start("execSync('sleep 9')");
    child.kill("SIGUSR2");
    expect(await once(child, "exit")).toEqual([null, "SIGKILL"]);
  });

  it("ends nothing when the whole process was suspended", async () => {
    const { child, url } = await start("");
    child.kill("SIGSTOP");
    await sleep(2_500);
    child.kill("SIGCONT");
    await sleep(1_000);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

interface Answered {
  readonly status: string;
  readonly objects: readonly { readonly output: { readonly text: string } }[];
}
