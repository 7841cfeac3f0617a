import { spawn } from "node:child_process";
import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunStatus } from "../../src/engine/runs/run_status.ts";
import { createEngine } from "../../src/index.ts";
import { MAIN } from "../built.ts";
import { type Desk, openDesk, question } from "./command.ts";

vi.setConfig({ testTimeout: 120_000 }); // several commands each

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
});
afterEach(() => desk.remove());

const RUN = ["run", "in.jsonl", "--out", "out.jsonl"];

describe("the errors of a run", () => {
  beforeEach(() => {
    desk.write("in.jsonl", [question("a"), "not json", question("c", "c", "gpt-4o"), "{", "", question("d")]);
  });

  it("are shown at its end by code, with the first line, its message and the command that shows all", async () => {
    const { stderr } = await desk.perigee(RUN);
    expect(stderr.slice(stderr.indexOf("errors\n"))).toBe(
      [
        "errors",
        "  invalid_json: 2 lines, first line 2: the line is not one JSON value",
        '  unknown_model: 1 line, first line 3 (key "c"): model must be "<provider>:<name>", got "gpt-4o"; did you mean "openai:gpt-4o"?',
        "to see what to do about them: perigee errors out.jsonl",
        "",
      ].join("\n"),
    );
  });

  it("and its counts are shown with a note while its output does not exist", async () => {
    await desk.perigee(RUN);
    const output = join(desk.dir, "out.jsonl");
    renameSync(output, `${output}.away`);
    const { code, stdout } = await desk.perigee(["status", "out.jsonl"]);
    const note = "output     it does not exist: put it back; the same run command says what is lost";
    expect([code, stdout.split("\n").includes(note)]).toEqual([0, true]);
    expect(JSON.parse((await desk.perigee(["status", "out.jsonl", "--json"])).stdout)).toMatchObject({
      output_missing: true,
    });
    expect((await desk.perigee(RUN)).stderr).toContain(
      "out.jsonl does not exist: it was moved or deleted, with ",
    );
    renameSync(`${output}.away`, output);
    expect((await desk.perigee(["status", "out.jsonl"])).stdout).not.toContain("output");
  });

  it("are shown with what to do by perigee errors", async () => {
    await desk.perigee(RUN);
    const { code, stdout } = await desk.perigee(["errors", "out.jsonl"]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: [
        "invalid_json: 2 lines, first line 2",
        "  the line is not one JSON value",
        "  what to do: correct the line, then run the same command with --update",
        'unknown_model: 1 line, first line 3 (key "c")',
        '  model must be "<provider>:<name>", got "gpt-4o"; did you mean "openai:gpt-4o"?',
        "  what to do: write the model as <provider>:<name>, then run the same command with --update; or add --model and --retry-failed=unknown_model",
        "",
      ].join("\n"),
    });
    const json = JSON.parse((await desk.perigee(["errors", "out.jsonl", "--json"])).stdout) as object;
    expect(json).toMatchObject({
      errors: [
        { code: "invalid_json", count: 2, first_line: 2, message: "the line is not one JSON value" },
        { code: "unknown_model", count: 1, first_line: 3 },
      ],
    });
  });

  it("are found in an output that is in order, too", async () => {
    await desk.perigee([...RUN, "--ordered", "--data", "state-of-it"]);
    const words = ["status", "out.jsonl", "--data", "state-of-it", "--json"];
    expect(JSON.parse((await desk.perigee(words)).stdout)).toEqual({
      counts: { answered: 2, failed: 3, open: 0, held: 0 },
      held: [],
      billed_usd: 0,
      unpriced_models: [],
      ambiguous_usd: 0,
      ambiguous_requests: 0,
      requests_under_way: 0,
      retrying: 0,
      retrying_errors: [],
      errors: [
        {
          code: "invalid_json",
          count: 2,
          first_line: 2,
          first_key: null,
          message: "the line is not one JSON value",
        },
        {
          code: "unknown_model",
          count: 1,
          first_line: 3,
          first_key: "c",
          message: 'model must be "<provider>:<name>", got "gpt-4o"; did you mean "openai:gpt-4o"?',
        },
      ],
    });
  });
});

describe("perigee status", () => {
  it("works while a run holds the folder, and after it was killed", async () => {
    let requests = 0;
    const server = createServer((_, response) => {
      requests += 1;
      if (requests > 3) return; // what comes later hangs
      const message = { role: "assistant", content: "yes" };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }], usage: {} }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const env = {
      PATH: process.env["PATH"],
      XDG_STATE_HOME: join(desk.dir, "state"),
      PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${port}/v1`,
      PERIGEE_LIMIT_LOCAL_CONCURRENCY: "1",
    };
    desk.write("in.jsonl", [
      ...["a", "b", "c", "d", "e"].map((key) => question(key, key, "local:m")),
      "broken",
    ]);
    const child = spawn(process.execPath, [MAIN, ...RUN], { cwd: desk.dir, env, stdio: "ignore" });
    const counts = { answered: 3, failed: 1, open: 2, held: 0 };
    try {
      await vi.waitFor(
        async () => {
          const { stdout } = await desk.perigee(["status", "out.jsonl", "--json"]);
          expect(JSON.parse(stdout)).toMatchObject({ counts });
        },
        { timeout: 60_000, interval: 100 },
      );
      expect(child.exitCode).toBe(null);
    } finally {
      child.kill("SIGKILL");
      await new Promise((resolve) => child.once("close", resolve));
      server.closeAllConnections();
      server.close();
    }
    const { code, stdout } = await desk.perigee(["status", "out.jsonl"]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: [
        "answered   3",
        "failed     1",
        "open       2",
        "held       0",
        "billed     unknown (no price is known for local:m)",
        "ambiguous  unknown (1 request may have been billed without an answer, 1 of them under way, or cut off when the process ended)",
        "errors",
        "  invalid_json: 1 line, first line 6: the line is not one JSON value",
        "to see what to do about them: perigee errors out.jsonl",
        "",
      ].join("\n"),
    });
  });

  it("says what holds lines while the run waits, after it has stopped, and no more when they were answered", async () => {
    const server = createServer((_, response) => {
      const message = { role: "assistant", content: "yes" };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }], usage: {} }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const address = `http://127.0.0.1:${port}`;
    const env = { PERIGEE_PROVIDER_LOCAL_BASE_URL: `${address}/v1` };
    desk.write("in.jsonl", [question("a", "a", "local:m"), question("b", "b", "local:m"), question("c")]);
    const child = spawn(process.execPath, [MAIN, ...RUN], {
      cwd: desk.dir,
      env: { PATH: process.env["PATH"], XDG_STATE_HOME: join(desk.dir, "state"), ...env },
      stdio: "ignore",
    });
    const looked = async (): Promise<RunStatus> =>
      JSON.parse((await desk.perigee(["status", "out.jsonl", "--json"])).stdout) as RunStatus;
    const hold = {
      reason: "outage",
      code: "connection_failed",
      items: 2,
      provider: "local",
      address,
      message: expect.stringContaining("ECONNREFUSED"),
    };
    try {
      await vi.waitFor(
        async () => {
          const seen = await looked();
          expect(seen.counts).toEqual({ answered: 1, failed: 0, open: 0, held: 2 });
          expect(seen.held).toMatchObject([{ ...hold, next_try: expect.any(String) }]);
        },
        { timeout: 60_000, interval: 200 },
      );
    } finally {
      child.kill("SIGKILL");
      await new Promise((resolve) => child.once("close", resolve));
    }
    expect(await desk.perigee([...RUN, "--wait", "0"], { env })).toMatchObject({ code: 3 });
    const stopped = await looked();
    expect(stopped).toMatchObject({ counts: { answered: 1, held: 2 }, held: [{ ...hold, next_try: null }] });
    expect(stopped.retrying_errors).toEqual([{ code: "connection_failed", items: 2 }]);
    const { stdout } = await desk.perigee(["status", "out.jsonl"]);
    expect(stdout).toContain(
      `held       2\n           2 lines: outage: local at ${address} is not available: `,
    );
    expect(stdout).toContain("billed     unknown (no price is known for local:m)\n");
    expect((await desk.perigee(["errors", "out.jsonl"])).stdout).toBe(
      "no line ended in an error\n2 lines have failed and will be tried again: 2 connection_failed\n2 lines are held and have no error; to see by what: perigee status out.jsonl\n",
    );
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    expect(await desk.perigee(RUN, { env })).toMatchObject({ code: 0 });
    expect(await looked()).toMatchObject({ counts: { answered: 3, open: 0, held: 0 }, held: [] });
    const left = readdirSync(join(desk.dir, "out.jsonl.perigee", "tasks"));
    expect(left).toEqual([expect.stringMatching(/\.held\.json$/)]); // what held it, for `perigee trace`
    server.closeAllConnections();
    server.close();
  });

  it("finds the run of a program that has an id as well as the output, and so do errors, trace and repair", async () => {
    desk.write("in.jsonl", [question("a"), "not json"]);
    const at = (name: string): string => join(desk.dir, name);
    const engine = await createEngine({ dataDir: at("state"), stateDir: false });
    await engine.run(at("in.jsonl"), { id: "mine", out: at("out.jsonl") }).finished;
    await engine.close();
    const shown = async (...words: string[]) => (await desk.perigee([...words, "--data", "state"])).stdout;
    expect(await shown("status", "out.jsonl")).toContain("answered   1\n");
    expect(await shown("errors", "out.jsonl")).toContain("invalid_json: 1 line, first line 2\n");
    expect(await shown("trace", "out.jsonl", "a")).toContain("a (line 1): completed\n");
    expect(await desk.perigee(["repair", "out.jsonl", "--data", "state"])).toMatchObject({ code: 0 });
  });

  it("says where it looked when there is no run", async () => {
    const { code, stderr } = await desk.perigee(["status", "out.jsonl"]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr:
        "perigee: not_found: no run is recorded in out.jsonl.perigee: it has no journal.sqlite; if the run was started with --data, add the same --data here\n",
    });
    desk.write("in.jsonl", [question("a")]);
    await desk.perigee([...RUN, "--data", "state"]);
    const other = await desk.perigee(["errors", "other.jsonl", "--data", "state"]);
    expect(other).toMatchObject({
      code: 2,
      stderr: `perigee: not_found: no run with the output ${join(desk.dir, "other.jsonl")} is recorded in state; --data must be that of the run\n`,
    });
  });
});

describe("perigee repair", () => {
  it.each([[[]], [["--ordered"]]])("says that nothing was wrong where nothing was (%o)", async (order) => {
    desk.write("fine.jsonl", [question("a"), question("b")]);
    await desk.perigee(["run", "fine.jsonl", "--out", "out.jsonl", ...order]);
    const before = desk.read("out.jsonl");
    expect(await desk.perigee(["repair", "out.jsonl"])).toMatchObject({
      code: 0,
      stderr: "out.jsonl is as it was written (2 lines); nothing was changed\n",
    });
    expect(desk.read("out.jsonl")).toBe(before);
    desk.write("out.jsonl", [`mine\n${before.trimEnd()}`]);
    const { stderr } = await desk.perigee(["repair", "out.jsonl"]);
    expect(stderr).toContain(
      "out.jsonl was rewritten: 2 lines were left, 0 are lost; the changed file is kept as",
    );
    expect(stderr).toContain("out.jsonl.damaged\n");
  });

  it("reads a compressed output, says so, and leaves nothing to request", async () => {
    desk.write("in.jsonl", [question("a"), question("b")]);
    await desk.perigee(RUN);
    const before = desk.read("out.jsonl");
    writeFileSync(join(desk.dir, "out.jsonl"), gzipSync(before));
    const refused = await desk.perigee(RUN);
    expect(refused.code).toBe(74);
    expect(refused.stderr).toContain(
      "it is compressed (gzip) now; put it back, or run the same command again",
    );
    expect(await desk.perigee(["repair", "out.jsonl"])).toMatchObject({
      code: 0,
      stderr: "out.jsonl (it is compressed (gzip) now) was rewritten: 2 lines were left, 0 are lost\n",
    });
    expect(desk.read("out.jsonl")).toBe(before);
    expect(await desk.perigee([...RUN, "--json"])).toMatchObject({ code: 0 });
    expect(readdirSync(desk.dir).filter((name) => name.startsWith("out"))).toEqual([
      "out.jsonl",
      "out.jsonl.perigee",
    ]);
  });
});
