/**
 * Two processes with folders of their own, as on two machines, on one PostgreSQL: the first is killed or stopped in the middle of its
 * work, and the second ends it. What was answered is not asked again, what was in flight at most once more.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { LEASE_MS } from "../../src/store/postgres/pg_partition.ts";
import { compiledProgram } from "../compiled_program.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const PROGRAM = fileURLToPath(new URL("fleet_program.ts", import.meta.url));
const ITEMS = 400;
const IN_FLIGHT = 32;
const ANSWER_MS = 200;
/** A dead process is replaced within 10 s, and starting takes its time. */
const TAKEOVER_MS_MAX = 10_000;

interface Program {
  readonly child: ChildProcess;
  readonly lines: Readonly<Record<string, unknown>>[];
  /** Resolves once its engine is open, with the time. */
  readonly open: Promise<number>;
  readonly ended: Promise<unknown>;
  stderr: string;
}

function textOf({ output }: Readonly<Record<string, unknown>>): unknown {
  return (output as { readonly text?: unknown } | undefined)?.text; // as the program prints it
}

describeCounterpart("PostgreSQL under two processes", POSTGRES, () => {
  let postgres: PostgresServer;
  let compiled: string;
  /** The program in it, which `node` can run. */
  let program: string;
  let provider: Server;
  let dir: string;
  /** How often each item was asked for, by its number from 1. */
  let asked: number[];
  let onAsked: () => void;
  const programs: Program[] = [];

  beforeAll(async () => {
    compiled = mkdtempSync(join(tmpdir(), "perigee-fleet-program-"));
    program = compiledProgram(PROGRAM, compiled);
    postgres = await PostgresServer.start();
  });
  afterAll(() => {
    rmSync(compiled, { recursive: true, force: true });
    return postgres?.remove();
  });

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "perigee-fleet-"));
    asked = Array.from({ length: ITEMS + 1 }, () => 0);
    onAsked = () => undefined;
    provider = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += String(chunk);
      });
      request.on("end", () => {
        const item = Number(/\[\[(\d+)\]\]/.exec(body)?.[1]);
        asked[item] = (asked[item] ?? 0) + 1;
        onAsked();
        setTimeout(() => {
          response.setHeader("content-type", "application/json");
          response.end(
            JSON.stringify({
              id: "c",
              choices: [{ message: { role: "assistant", content: `answer ${item}` }, finish_reason: "stop" }],
              usage: { prompt_tokens: 5, completion_tokens: 2 },
            }),
          );
        }, ANSWER_MS);
      });
    });
    provider.listen(0, "127.0.0.1");
    await once(provider, "listening");
  });
  afterEach(async () => {
    for (const { child } of programs.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
    provider.closeAllConnections();
    provider.close();
    await once(provider, "close");
    rmSync(dir, { recursive: true, force: true });
  });

  function start(url: string, folder: string): Program {
    const { port } = provider.address() as AddressInfo;
    const child = spawn(process.execPath, [program, url, join(dir, folder), String(ITEMS)], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${port}/v1`,
        PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
      },
    });
    const lines: Record<string, unknown>[] = [];
    const open = new Promise<number>((resolve) => {
      createInterface({ input: child.stdout }).on("line", (line) => {
        const told = JSON.parse(line) as Record<string, unknown>;
        if (told["open"] === true) resolve(performance.now());
        else lines.push(told);
      });
    });
    const started: Program = { child, lines, open, ended: once(child, "close"), stderr: "" };
    child.stderr.on("data", (chunk: Buffer) => {
      started.stderr += String(chunk);
    });
    programs.push(started);
    return started;
  }

  const total = (): number => asked.reduce((sum, times) => sum + times, 0);
  const whenAsked = (count: number): Promise<void> =>
    new Promise((resolve) => {
      onAsked = () => {
        if (total() >= count) resolve();
      };
    });
  const all = Array.from({ length: ITEMS }, (_, index) => index + 1);

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "the second goes on within 10 s after %s of the first, and each item has one answer",
    { timeout: 90_000 },
    async (signal) => {
      const url = await postgres.freshUrl();
      const first = start(url, "first");
      await whenAsked(ITEMS / 2);
      first.child.kill(signal);
      const killed = performance.now();
      const second = start(url, "second");
      expect((await second.open) - killed).toBeLessThan(TAKEOVER_MS_MAX);
      await second.ended;
      const askedBySecond = total();
      first.child.kill("SIGCONT"); // it wakes up, and finds its partition taken
      await first.ended;
      expect(total()).toBe(askedBySecond);
      if (signal === "SIGSTOP") expect(first.stderr).toContain("taken over");
      expect(second.child.exitCode, second.stderr).toBe(0);
      expect(second.lines.map(textOf).toSorted()).toEqual(all.map((item) => `answer ${item}`).toSorted());
      expect(all.filter((item) => (asked[item] ?? 0) > 2)).toEqual([]);
      expect(total() - ITEMS).toBeLessThanOrEqual(IN_FLIGHT);
    },
  );

  it("sends nothing from the end of its lease on while the database is away, and goes on when it is back", {
    timeout: 90_000,
  }, async () => {
    const only = start(await postgres.freshUrl(), "only");
    await whenAsked(ITEMS / 4);
    await postgres.down("SIGQUIT");
    const downMs = performance.now();
    await until(downMs + LEASE_MS);
    const sent = total();
    await until(downMs + LEASE_MS + 3_000);
    expect(total()).toBe(sent);
    await postgres.up();
    await only.ended;
    expect(only.child.exitCode, only.stderr).toBe(0);
    expect(all.filter((item) => asked[item] !== 1)).toEqual([]);
  });
});

function until(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, atMs - performance.now()));
}
