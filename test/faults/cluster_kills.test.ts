/**
 * `perigee cluster run` killed again and again: the same command goes on, everything is done, and what is done twice is
 * what was under way at a kill. `PERIGEE_TEST_KILLS` sets how often (default 6).
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { MAIN } from "../built.ts";

const dir = mkdtempSync(join(tmpdir(), "perigee-cluster-kills-"));
const kills = Number(process.env["PERIGEE_TEST_KILLS"] ?? 6);
const ELEMENTS = 60;
const CONCURRENCY = 4;

/** Calls of each path. */
const seen = new Map<string, number>();
const server = createServer((request, response) => {
  const path = request.url ?? "";
  request.resume();
  setTimeout(() => {
    seen.set(path, (seen.get(path) ?? 0) + 1);
    response.writeHead(path === "/fails" ? 400 : 200).end();
  }, 40);
});

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  writeFileSync(
    join(dir, "config.json"),
    JSON.stringify({ egressAllow: ["127.0.0.0/8"], egressPorts: [port] }),
  );
  const hook = (path: string) => ({
    uses: "satellite/perigee/call-webhook",
    config: { url: `http://127.0.0.1:${port}${path}`, method: "PUT" },
  });
  const satellites = [
    { identifier: "begin", ...hook("/begin") },
    {
      identifier: "hooks",
      needs: ["begin"],
      each: Array.from({ length: ELEMENTS }, (_, index) => index),
      concurrency: CONCURRENCY,
      ...hook("/each/${{ each.item }}"),
    },
    { identifier: "fails", needs: ["hooks"], ...hook("/fails") },
    { identifier: "skipped", needs: ["fails"], ...hook("/skipped") },
    { identifier: "alert", if: "on_failure", ...hook("/alert") },
  ];
  writeFileSync(join(dir, "c.json"), JSON.stringify({ sla: "1h", cluster: { satellites } }));
});

afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs the command; kills it after so many milliseconds of work, when it is given. */
async function run(killAfterMs?: number): Promise<{ readonly code: number | null; readonly stdout: string }> {
  const words = ["cluster", "run", "c.json", "--config", "config.json", "--json"];
  const child = spawn(process.execPath, [MAIN, ...words], { cwd: dir, stdio: ["ignore", "pipe", "ignore"] });
  let stdout = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", (code) => resolve(code)));
  if (killAfterMs !== undefined) {
    const before = [...seen.values()].reduce((sum, count) => sum + count, 0);
    const isBegun = () => [...seen.values()].reduce((sum, count) => sum + count, 0) > before;
    for (let waitedMs = 0; waitedMs < 5_000 && !isBegun() && child.exitCode === null; waitedMs += 5)
      await sleep(5);
    await sleep(killAfterMs);
    child.kill("SIGKILL");
  }
  return { code: await ended, stdout };
}

it("fault 104: a cluster that is killed again and again does everything, and repeats only what was under way", async () => {
  const random = createRandom(Date.now());
  for (let kill = 0; kill < kills; kill += 1) await run(Math.floor(random() * 150));
  const { code, stdout } = await run();
  const { status, members } = JSON.parse(stdout) as {
    status: string;
    members: { identifier: string; status: string; counts?: object }[];
  };
  expect([code, status]).toEqual([3, "failed"]);
  expect(Object.fromEntries(members.map((member) => [member.identifier, member.status]))).toEqual({
    begin: "completed",
    hooks: "completed",
    fails: "failed",
    skipped: "skipped",
    alert: "completed",
  });
  const paths = [
    "/begin",
    "/fails",
    "/alert",
    ...Array.from({ length: ELEMENTS }, (_, index) => `/each/${index}`),
  ];
  expect([...seen.keys()].sort()).toEqual(paths.sort());
  const repeats = [...seen.values()].reduce((sum, count) => sum + count - 1, 0);
  expect(repeats).toBeLessThanOrEqual(kills * CONCURRENCY);
}, 120_000);
