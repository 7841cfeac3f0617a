/** `perigee cluster`: run, check, continue, exit codes. */
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { type Desk, openDesk } from "./command.ts";

const LLM = "satellite/perigee/deepseek-r1-distrill-llama-70b";
const HOOK = "satellite/perigee/call-webhook";

let desk: Desk;
let server: Server | undefined;

beforeEach(() => {
  desk = openDesk();
});
afterEach(() => {
  server?.close();
  server?.closeAllConnections();
  server = undefined;
  desk.remove();
});

const declare = (...members: string[]): string =>
  desk.write("c.yaml", [
    `sla: 10m\ncluster:\n  satellites:\n${members.map((member) => `    - { ${member} }`).join("\n")}`,
  ]);

const ask = (identifier: string, prompt: string, rest = ""): string =>
  `uses: ${LLM}, identifier: ${identifier}, input: { prompt: "${prompt}" }, config: { model: "echo:m" }${rest}`;

/** A receiver on this machine, and the configuration that lets satellites reach it. */
async function receiver(
  answer: (path: string) => { readonly status?: number; readonly afterMs?: number },
): Promise<{
  readonly url: string;
  readonly seen: string[];
}> {
  const seen: string[] = [];
  server = createServer((request, response) => {
    const path = request.url ?? "";
    seen.push(path);
    const { status = 200, afterMs = 0 } = answer(path);
    setTimeout(() => response.writeHead(status).end(), afterMs);
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  desk.write("config.json", [{ egressAllow: ["127.0.0.0/8"], egressPorts: [port] }]);
  return { url: `http://127.0.0.1:${port}`, seen };
}

describe("perigee cluster run", () => {
  it("runs a cluster to its end, tells every change on a line, and exits 0", async () => {
    declare(ask("first", "hello ${{ input.name }}"), ask("second", "again: ${{ first.output.response }}"));
    const { code, stdout, stderr } = await desk.perigee([
      "cluster",
      "run",
      "c.yaml",
      "--input",
      '{"name":"Ada"}',
    ]);
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr.replaceAll(/ +\d:\d\d/g, " T")).toBe(
      "first   running T\nfirst   completed T\nsecond  running T\nsecond  completed T\ncompleted (2 completed)\n",
    );
  });

  it("prints the run as one JSON object, and the same again without running anything", async () => {
    declare(ask("first", "hello"), ask("many", "${{ each.item }}", ", each: [a, b]"));
    const words = ["cluster", "run", "c.yaml", "--json"];
    const first = await desk.perigee(words);
    const run = JSON.parse(first.stdout);
    expect([first.code, run.status, run.members[0].output.response]).toEqual([0, "completed", "hello"]);
    expect(run.members[1].output.map(({ response }: { response: string }) => response)).toEqual(["a", "b"]);
    const second = await desk.perigee(words);
    expect([second.code, second.stdout]).toEqual([0, first.stdout]);
    expect(second.stderr).toContain("this run was over already; --new begins another");
    const third = JSON.parse((await desk.perigee([...words, "--new"])).stdout);
    expect([third.status, third.cluster_id === run.cluster_id]).toEqual(["completed", false]);
    const fourth = JSON.parse((await desk.perigee(words)).stdout);
    expect(fourth.cluster_id).toBe(third.cluster_id);
  });

  it("exits 3 when a member fails, and lets an alert follow", async () => {
    const { url, seen } = await receiver((path) => ({ status: path === "/bad" ? 400 : 200 }));
    declare(
      `uses: ${HOOK}, identifier: hook, config: { url: "${url}/bad" }`,
      `uses: ${HOOK}, identifier: alert, if: on_failure, config: { url: "${url}/alert" }`,
    );
    const { code, stderr } = await desk.perigee(["cluster", "run", "c.yaml", "--config", "config.json"]);
    expect([code, seen]).toEqual([3, ["/bad", "/alert"]]);
    expect(stderr).toContain("failed: hook failed: ");
  });

  it("refuses a declaration as FILE:line:column: message, with 2, and leaves no run", async () => {
    declare(ask("a", "${{ b.output.response }}"), `uses: ${LLM}, identifier: c, inputs: {}`);
    const { code, stdout, stderr } = await desk.perigee(["cluster", "run", "c.yaml"]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(
      'c.yaml:4:97: cluster.satellites[0].input.prompt: no satellite has the identifier "b"',
    );
    expect(stderr).toContain(
      'c.yaml:5:80: cluster.satellites[1].inputs: unknown key "inputs": did you mean input?',
    );
    const json = JSON.parse((await desk.perigee(["cluster", "run", "c.yaml", "--json"])).stdout);
    expect([json.error.code, json.error.issues.length]).toEqual(["invalid_request", 3]);
  });

  it.each([
    ["a missing file", ["cluster", "run", "none.yaml"], 74],
    ["a missing argument", ["cluster", "run"], 2],
    ["an input that is not an object", ["cluster", "run", "c.yaml", "--input", "{7}"], 2],
    ["an unknown option", ["cluster", "run", "c.yaml", "--inputs", "{}"], 2],
  ])("says what is wrong with %s", async (_name, words, expected) => {
    declare(ask("a", "x"));
    const { code, stderr } = await desk.perigee(words);
    expect([code, stderr.length > 0]).toEqual([expected, true]);
  });

  it("stops at a signal with 130, lets what is under way end, and goes on with the same command", async () => {
    const { url, seen } = await receiver(() => ({ afterMs: 300 }));
    declare(
      `uses: ${HOOK}, identifier: hook, each: [1,2,3,4,5,6,7,8], concurrency: 2, config: { url: "${url}/\${{ each.item }}" }`,
    );
    const words = ["cluster", "run", "c.yaml", "--config", "config.json"];
    const child = spawn(process.execPath, [MAIN, ...words], {
      cwd: desk.dir,
      stdio: ["ignore", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    while (seen.length < 3) await sleep(10);
    child.kill("SIGINT");
    expect(await exitOf(child)).toBe(130);
    expect(stderr).toContain("to continue: perigee cluster run c.yaml --config config.json\n");
    const before = seen.length;
    expect(before).toBeLessThan(8);
    const { code } = await desk.perigee(words);
    expect([code, seen.length, new Set(seen).size]).toEqual([0, 8, 8]);
  });
});

describe("perigee cluster check", () => {
  it("prints nothing and exits 0 when all is well", async () => {
    declare(ask("a", "x"));
    expect(await desk.perigee(["cluster", "check", "c.yaml"])).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  it("prints a warning as such, and exits 0: the cluster can be run", async () => {
    declare(ask("a", "repeat secret://tok"));
    const told =
      "cluster.satellites[0].input.prompt: the secret is not inserted here, its reference is passed on as text: references are replaced only in config, and in input fields that the satellite's schema marks with x-secret";
    const { code, stdout, stderr } = await desk.perigee(["cluster", "check", "c.yaml"]);
    expect([code, stdout, stderr]).toEqual([0, `c.yaml:4:97: warning: ${told}\n`, ""]);
    const json = await desk.perigee(["cluster", "check", "c.yaml", "--json"]);
    expect(JSON.parse(json.stdout)).toMatchObject({
      valid: true,
      issues: [{ line: 4, severity: "warning" }],
    });
  });

  it("prints each issue at its place, makes no folder, and exits 2", async () => {
    desk.write("bad.yaml", [
      "cluster:\n  satellites:\n    - uses: satellite/perigee/nothing\n      identifier: a\n      identifier: b",
    ]);
    const twice = await desk.perigee(["cluster", "check", "bad.yaml"]);
    expect([twice.code, twice.stdout]).toEqual([
      2,
      'bad.yaml:5:7: cluster.satellites[0].identifier: occurs twice: "identifier"\n',
    ]);
    declare("uses: satellite/perigee/nothing, identifier: a");
    const { code, stdout } = await desk.perigee(["cluster", "check", "c.yaml", "--json"]);
    expect([code, JSON.parse(stdout)]).toEqual([
      2,
      {
        valid: false,
        issues: [
          {
            line: 4,
            column: 15,
            path: "cluster.satellites[0].uses",
            message: "there is no satellite satellite/perigee/nothing that this project may use",
          },
        ],
      },
    ]);
    expect(() => desk.read("perigee-data")).toThrow("ENOENT");
  });
});

function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.on("exit", (code) => resolve(code)));
}
