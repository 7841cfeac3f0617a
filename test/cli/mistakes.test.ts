import { readdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk, question } from "./command.ts";

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
  desk.write("in.jsonl", [question("a")]);
});
afterEach(() => desk.remove());

/** What is said, without the label, and the code. */
async function said(
  words: readonly string[],
  env: Record<string, string> = {},
): Promise<[number | null, string]> {
  const { code, stderr } = await desk.perigee(words, { env });
  return [code, stderr.trim().split("\n").slice(0, 2).join(" ")];
}

describe("a mistake on the command line", () => {
  it("is told with what was expected, ends with 2, and leaves nothing behind", async () => {
    const run = ["run", "in.jsonl", "--out", "out.jsonl"];
    expect(
      await Promise.all([
        said(["run", "in.jsonl"]),
        said([...run, "--sla", "soon"]),
        said([...run, "--sla", "43201"]),
        said([...run, "--max-cost", "-1"]),
        said([...run, "--model", "gpt-4o"]),
        said([...run, "--orderd"]),
        said(["runn", "in.jsonl"]),
      ]),
    ).toEqual([
      [2, "error: required option '-o, --out <file>' not specified (perigee --help shows all options)"],
      [
        2,
        "error: option '--sla <minutes>' argument 'soon' is invalid. It must be whole minutes from 1 to 43200, or a duration such as 90m, 24h or 7d. (perigee --help shows all options)",
      ],
      [2, "perigee: usage: --sla: sla must be whole minutes from 1 to 43200, got 43201"],
      [
        2,
        "error: option '--max-cost <usd>' argument '-1' is invalid. It must be an amount in USD above 0, such as 4 or 0.50. (perigee --help shows all options)",
      ],
      [
        2,
        "error: option '--model <id>' argument 'gpt-4o' is invalid. It must be <provider>:<name>, such as openai:gpt-4o-mini. (perigee --help shows all options)",
      ],
      [2, "error: unknown option '--orderd' (Did you mean --ordered?)"],
      [2, "error: unknown command 'runn' (Did you mean run?)"],
    ]);
    expect(readdirSync(desk.dir)).toEqual(["in.jsonl"]);
  });

  it("is an input that is not there, or a folder: 74, and nothing left behind", async () => {
    expect(await said(["run", "inn.jsonl", "--out", "out.jsonl"])).toEqual([
      74,
      "perigee: input_unreadable: inn.jsonl: no such file",
    ]);
    expect(await said(["run", ".", "--out", "out.jsonl"])).toEqual([
      74,
      "perigee: input_unreadable: . is a folder, expected a file of requests",
    ]);
    expect(await said(["quote", "inn.jsonl"])).toEqual([
      74,
      "perigee: input_unreadable: inn.jsonl: no such file",
    ]);
    expect(readdirSync(desk.dir)).toEqual(["in.jsonl"]);
  });

  it("is a wrong configuration: 2, with file, place and what was found", async () => {
    desk.write("broken.json", ["{"]);
    desk.write("wrong.json", ['{"limits":{"openai":{"rpm":3}}}']);
    const run = ["run", "in.jsonl", "--out", "out.jsonl"];
    expect(await said([...run, "--config", "none.json"])).toEqual([
      2,
      "perigee: invalid_config: none.json cannot be read",
    ]);
    expect(await said([...run, "--config", "broken.json"])).toEqual([
      2,
      "perigee: invalid_config: broken.json is not JSON",
    ]);
    expect(await said([...run, "--config", "wrong.json"])).toEqual([
      2,
      'perigee: invalid_config: wrong.json at limits.openai: Unrecognized key: "rpm"',
    ]);
    expect(await said(run, { PERIGEE_MAX_INFLIGHT: "many" })).toEqual([
      2,
      'perigee: invalid_config: PERIGEE_MAX_INFLIGHT must be a whole number from 1, got "many"',
    ]);
  });
});

describe("a file that cannot be run", () => {
  it("is one with two lines of one key: both are named, and nothing is sent", async () => {
    desk.write("twice.jsonl", [question("a"), question("b"), question("a")]);
    const { code, stdout, stderr } = await desk.perigee([
      "run",
      "twice.jsonl",
      "--out",
      "out.jsonl",
      "--json",
    ]);
    expect(code).toBe(74);
    expect(stderr).toContain("duplicate_key: lines 1 and 3 have the same key");
    expect(JSON.parse(stdout)).toMatchObject({
      status: "failed",
      error: { code: "duplicate_key", lines: [1, 3] },
    });
    expect(readdirSync(desk.dir)).not.toContain("out.jsonl");
  });

  it("is one that changed since its run began", async () => {
    const run = ["run", "in.jsonl", "--out", "out.jsonl"];
    await desk.perigee(run);
    desk.write("in.jsonl", [question("a"), question("b")]);
    const [code, message] = await said(run);
    expect(code).toBe(74);
    expect(message).toContain("input_changed");
  });

  it("is one whose output would go over another file, such as the input itself", async () => {
    const [code, message] = await said(["run", "in.jsonl", "--out", "in.jsonl"]);
    expect(code).toBe(74);
    expect(message).toContain("output_unwritable");
    expect(desk.lines("in.jsonl")).toHaveLength(1);
  });

  it("is one that would be written where a folder is: not a bug of perigee", async () => {
    const [code, message] = await said(["run", "in.jsonl", "--out", ".", "--data", "state"]);
    expect(code).toBe(74);
    expect(message).toMatch(/^perigee: output_unwritable: .*(EISDIR|folder)/);
  });
});

describe("the environment", () => {
  it("makes a server known by its base URL, with its key", async () => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(`${request.url} ${request.headers.authorization}`);
      const message = { role: "assistant", content: "from the box" };
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({
          choices: [{ index: 0, message, finish_reason: "stop" }],
          usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
        }),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    desk.write("box.jsonl", [question("a", "hi", "mybox:llama")]);
    const env = {
      PERIGEE_PROVIDER_MYBOX_BASE_URL: `http://127.0.0.1:${port}/v1`,
      PERIGEE_PROVIDER_MYBOX_KEY: "secret",
      PERIGEE_LIMIT_MYBOX_RPM: "60",
    };
    const { code, stderr } = await desk.perigee(["run", "box.jsonl", "--out", "out.jsonl"], { env });
    server.close();
    expect(code).toBe(0);
    expect(seen).toEqual(["/v1/chat/completions Bearer secret"]);
    expect(desk.lines("out.jsonl")).toEqual([{ key: "a", output: { type: "text", text: "from the box" } }]);
    expect(stderr).not.toContain("secret");
  });

  it("that holds a key the provider refuses stops the run with 2 and says so, with all items kept", async () => {
    const server = createServer((_, response) => {
      response.writeHead(401, { "content-type": "application/json" });
      response.end(
        '{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}',
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
    desk.write(
      "paid.jsonl",
      keys.map((key) => question(key, "hi", "openai:gpt-4o-mini")),
    );
    const env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: "sk-wrong-wrong" };
    const { code, stderr } = await desk.perigee(["run", "paid.jsonl", "--out", "out.jsonl"], { env });
    server.close();
    expect(code).toBe(2);
    expect(stderr).toMatch(/stopped with \d+ items left: the provider refuses the key/);
    expect(stderr).toContain("to continue: perigee run paid.jsonl --out out.jsonl\n");
    expect(stderr).not.toContain("sk-wrong");
  });
});
