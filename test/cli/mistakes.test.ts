import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
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

describe("a place that is no regular file", () => {
  it.each(["folder", "pipe"])(
    "such as a %s is refused before anything is sent, and stays as it is",
    async (place) => {
      const path = join(desk.dir, place);
      if (place === "folder") mkdirSync(path);
      else execFileSync("mkfifo", [path]);
      const before = statSync(path);
      const run = ["run", "in.jsonl", "--data", "state"];
      for (const words of [
        [...run, "--out", place],
        [...run, "--out", place, "--ordered"],
        [...run, "--out", "out.jsonl", "--receipts", place],
      ])
        expect(await said(words)).toEqual([
          74,
          `perigee: output_unwritable: ${path} is a folder, a pipe or a device; name a file, which may not exist yet`,
        ]);
      expect([statSync(path).ino, statSync(path).mode]).toEqual([before.ino, before.mode]);
    },
  );
});

describe("a mistake on the command line", () => {
  it("is named by its option also where only the engine knows it", async () => {
    const words = ["run", "in.jsonl", "--out", "out.jsonl", "--allow-lanes", "opnai:flex"];
    expect(await said(words)).toEqual([
      2,
      'perigee: usage: --allow-lanes: provider "opnai" is not configured; did you mean "openai"?',
    ]);
  });

  it("is reported with what was expected, ends with 2, and leaves nothing behind", async () => {
    const run = ["run", "in.jsonl", "--out", "out.jsonl"];
    expect(
      await Promise.all([
        said(["run", "in.jsonl"]),
        said([...run, "--sla", "soon"]),
        said([...run, "--sla", "43201"]),
        said([...run, "--max-cost", "-1"]),
        said([...run, "--model", "gpt-4o"]),
        said([...run, "--wait", "10"]),
        said(["keys", "create", "--project", "p", "--expires", "0"]),
        said([...run, "--deny-lanes", "batch,openai:flx"]),
        said([...run, "--policy", "cheap"]),
        said([...run, "--min-on-time", "99"]),
        said([...run, "--orderd"]),
        said([...run, "--prune"]),
        said([...run, "--fields", "usag"]),
        said([...run, "--fields", "usage", "--format", "raw"]),
        said(["run", "-", "--out", "out.jsonl", "--update"]),
        said(["runn", "in.jsonl"]),
      ]),
    ).toEqual([
      [2, "error: required option '-o, --out <file>' not specified (perigee run --help shows all options)"],
      [
        2,
        "error: option '--sla <minutes>' argument 'soon' is invalid. It must be whole minutes from 1 to 43200, or a duration such as 90m, 24h or 7d. (perigee run --help shows all options)",
      ],
      [2, "perigee: usage: --sla: sla must be whole minutes from 1 to 43200, got 43201"],
      [
        2,
        "error: option '--max-cost <usd>' argument '-1' is invalid. It must be an amount in USD above 0, such as 4 or 0.50. (perigee run --help shows all options)",
      ],
      [
        2,
        "error: option '--model <id>' argument 'gpt-4o' is invalid. It must be <provider>:<name>; did you mean \"openai:gpt-4o\"? (perigee run --help shows all options)",
      ],
      [
        2,
        "error: option '--wait <duration>' argument '10' is invalid. It must be 0, or a duration such as 90s, 30m or 2h. (perigee run --help shows all options)",
      ],
      [
        2,
        "error: option '--expires <duration>' argument '0' is invalid. It must be a duration above 0, such as 90m, 24h or 30d. (perigee keys create --help shows all options)",
      ],
      [
        2,
        "error: option '--deny-lanes <lanes>' argument 'batch,openai:flx' is invalid. \"openai:flx\" is not a known lane; did you mean \"openai:flex\"? (perigee run --help shows all options)",
      ],
      [
        2,
        "error: option '--policy <policy>' argument 'cheap' is invalid. Allowed choices are cheapest, balanced, fastest. (perigee run --help shows all options)",
      ],
      [
        2,
        "error: option '--min-on-time <share>' argument '99' is invalid. It must be a share from 0.5 to 0.9999, such as 0.99. (perigee run --help shows all options)",
      ],
      [2, "error: unknown option '--orderd' (Did you mean --ordered?)"],
      [2, "perigee: usage: --prune works only with --update: add --update"],
      [2, 'perigee: usage: --fields: "usag" is not a member of a line; did you mean "usage"?'],
      [2, "perigee: usage: --fields cannot be combined with format raw"],
      [
        2,
        "perigee: usage: --update cannot compare standard input with the previous input: write it to a file, and run that file with --update",
      ],
      [2, "error: unknown command 'runn' (Did you mean run?)"],
    ]);
    expect(readdirSync(desk.dir)).toEqual(["in.jsonl"]);
  });

  it("takes 0 as a wait in any unit", async () => {
    for (const none of ["0", "0s"])
      expect((await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--wait", none])).code).toBe(0);
  });

  it("is a missing input, or a folder: 74, and nothing left behind", async () => {
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
      "perigee: invalid_config: none.json cannot be read: no such file",
    ]);
    expect(await said([...run, "--config", "broken.json"])).toEqual([
      2,
      "perigee: invalid_config: broken.json is not JSON: it ends too early",
    ]);
    expect(await said([...run, "--config", "wrong.json"])).toEqual([
      2,
      'perigee: invalid_config: wrong.json at limits.openai: "rpm" is not a known name; expected one of requestsPerMinute, tokensPerMinute, inputTokensPerMinute, outputTokensPerMinute, concurrency',
    ]);
    expect(await said(run, { PERIGEE_MAX_INFLIGHT: "many" })).toEqual([
      2,
      'perigee: invalid_config: PERIGEE_MAX_INFLIGHT must be a whole number from 1, got "many"',
    ]);
  });
});

describe("a misspelt environment variable", () => {
  it("of perigee is reported by every command, before anything is made", async () => {
    const run = ["run", "in.jsonl", "--out", "out.jsonl"];
    expect(await said(run, { PERIGEE_MAX_INFLIHGT: "8" })).toEqual([
      2,
      'perigee: invalid_config: PERIGEE_MAX_INFLIHGT is not a known variable; did you mean "PERIGEE_MAX_INFLIGHT"?',
    ]);
    expect(await said(["quote", "in.jsonl"], { PERIGEE_PROVIDER_OPNAI_KEY: "k" })).toEqual([
      2,
      'perigee: invalid_config: PERIGEE_PROVIDER_OPNAI_KEY is of a provider that is not configured; did you mean "PERIGEE_PROVIDER_OPENAI_KEY"?',
    ]);
    expect(await said(["keys", "list"], { PERIGEE_APIKEY: "k" })).toEqual([
      2,
      'perigee: invalid_config: PERIGEE_APIKEY is not a known variable; did you mean "PERIGEE_API_KEY"?',
    ]);
    expect(readdirSync(desk.dir)).toEqual(["in.jsonl"]);
  });

  it("that would make a provider known is named in the line that needs it", async () => {
    desk.write("in.jsonl", [question("a", "hi", "mybox:llama"), question("b", "hi", "opnai:gpt-4o")]);
    const { code } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"]);
    expect(code).toBe(3);
    expect(desk.lines("out.jsonl")).toEqual([]);
    expect((await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--finish"])).code).toBe(3);
    expect(desk.lines("out.jsonl").map(({ error }) => error?.message)).toEqual([
      'provider "mybox" is not configured; set PERIGEE_PROVIDER_MYBOX_BASE_URL, or providers.mybox.baseUrl in the configuration',
      'provider "opnai" is not configured; did you mean "openai"?',
    ]);
  });
});

describe("a quote of a file with faults", () => {
  it("ends with 2 and names the first of them, and quotes the other lines", async () => {
    const wrong = {
      key: "b",
      request: { model: "echo:test", contents: [], generation_config: { temprature: 1 } },
    };
    desk.write("faulty.jsonl", [question("a"), wrong, "no json"]);
    const { code, stdout, stderr } = await desk.perigee(["quote", "faulty.jsonl", "--json"]);
    expect(code).toBe(2);
    expect(stderr).toBe(
      'perigee: faulty.jsonl has 2 lines that fail before anything is sent, and that are not quoted; the first is line 2: invalid_config: "temprature" is not a known member of generation_config; did you mean "temperature"?\n',
    );
    expect(JSON.parse(stdout)).toMatchObject({
      items: 1,
      rejected_lines: 2,
      first_fault: { line: 2, code: "invalid_config" },
    });
  });
});

describe("a quote of a model whose key is missing", () => {
  it("says so, and counts on the provider's batches as the run with a key would use them", async () => {
    const lines = Array.from({ length: 200 }, (_, index) =>
      question(`k${index}`, "hi", "openai:gpt-4o-mini"),
    );
    desk.write("chats.jsonl", lines);
    const { code, stdout, stderr } = await desk.perigee(["quote", "chats.jsonl", "--sla", "1440"]);
    expect([code, stderr]).toEqual([
      0,
      'warning: line 1 and others would be held: provider "openai" needs a key; set OPENAI_API_KEY\n',
    ]);
    expect(stdout).toContain("200 in openai:batch");
  });
});

describe("a file of another format", () => {
  const line = '{"key":"1","request":{"model":"openai:gpt-4o-mini","contents":[{"parts":[{"text":"..."}]}]}}';

  it("is reported with what it is and what to do: 74, by run and quote alike, and nothing left behind", async () => {
    const files: [string, Uint8Array, string][] = [
      [
        "in.csv",
        Buffer.from("id,question\n1,Why?\n"),
        `in.csv is a table (CSV), expected JSON lines in UTF-8; add --prompt with a file that says what to ask each row, with {{column}} for its cells, or write a line like this for each row: ${line}`,
      ],
      [
        "in.xlsx",
        Buffer.from("PK\u0003\u0004....[Content_Types].xml"),
        `in.xlsx is an Excel workbook (.xlsx), expected JSON lines in UTF-8; save the sheet as CSV, and add --prompt with a file that says what to ask each row, with {{column}} for its cells, or write a line like this for each row: ${line}`,
      ],
      [
        "wide.jsonl",
        Buffer.from(`\ufeff${JSON.stringify(question("a"))}\n`, "utf16le"),
        "wide.jsonl is UTF-16 text, expected JSON lines in UTF-8; convert it first, for example with iconv -f UTF-16 -t UTF-8",
      ],
      [
        "in.jsonl.gz",
        Buffer.from("1f8b0800000000000003", "hex"),
        "in.jsonl.gz is compressed (gzip), expected JSON lines in UTF-8; unpack it first",
      ],
      [
        "photo.png",
        Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"),
        "photo.png is a PNG image, expected JSON lines in UTF-8; pass a file of requests instead",
      ],
      [
        "zeros.jsonl",
        new Uint8Array(300),
        "zeros.jsonl is a binary file, expected JSON lines in UTF-8; pass a file of requests instead",
      ],
    ];
    for (const [name, bytes, message] of files) {
      writeFileSync(join(desk.dir, name), bytes);
      const shown = await said(["run", name, "--out", "out.jsonl"]);
      expect([shown[0], shown[1].replace(`${desk.dir}/`, "")]).toEqual([
        74,
        `perigee: unsupported_encoding: ${message}`,
      ]);
      expect(await said(["quote", name])).toEqual([74, `perigee: unsupported_encoding: ${message}`]);
    }
    expect(readdirSync(desk.dir)).not.toContain("out.jsonl");
  });
});

describe("a .json file", () => {
  it("that has one request on each line is read as lines, by run and quote alike", async () => {
    desk.write("lines.json", [question("a"), question("b")]);
    expect((await desk.perigee(["run", "lines.json", "--out", "out.jsonl", "--ordered"])).code).toBe(0);
    expect(desk.lines("out.jsonl").map(({ key }) => key)).toEqual(["a", "b"]);
    expect((await desk.perigee(["quote", "lines.json"])).stdout).toMatch(/items +2\n/);
  });

  it("that has one object on several lines is refused with what it must hold", async () => {
    desk.write("one.json", [JSON.stringify(question("a"), null, 2)]);
    expect(await said(["run", "one.json", "--out", "out.jsonl"])).toEqual([
      74,
      `perigee: invalid_array: ${join(desk.dir, "one.json")} begins with an object that is not on one line: expected an array of requests in [ ], or one request on each line`,
    ]);
  });
});

describe("a name in a line that is nearly right", () => {
  it("is refused with the one that was meant: the key, and the provider of a model", async () => {
    const [a, b] = [question("a", "hi", "gpt-4o-mini"), question("b", "hi", "mine")] as Record<
      string,
      unknown
    >[];
    const c = { kye: "c", request: a?.["request"] };
    desk.write("near.jsonl", [a ?? {}, c, b ?? {}]);
    await desk.perigee(["run", "near.jsonl", "--out", "out.jsonl", "--ordered"]);
    expect(desk.lines("out.jsonl").map(({ error }) => error?.message)).toEqual([
      'model must be "<provider>:<name>", got "gpt-4o-mini"; did you mean "openai:gpt-4o-mini"?',
      'key must be a string, got nothing; did you mean "key" instead of "kye"?',
      'model must be "<provider>:<name>", got "mine"',
    ]);
    const [code, message] = await said(["run", "in.jsonl", "--out", "o.jsonl", "--model", "claude-opus-4-5"]);
    expect([code, message]).toEqual([
      2,
      "error: option '--model <id>' argument 'claude-opus-4-5' is invalid. It must be <provider>:<name>; did you mean \"anthropic:claude-opus-4-5\"? (perigee run --help shows all options)",
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
    expect(message).toContain("put it back, run the same command with --update to answer the new lines");
    const { stdout } = await desk.perigee([...run, "--json"]);
    expect(JSON.parse(stdout).error.message).toContain("run the same command with --update");
  });

  it("is one whose output would go over another file, such as the input itself", async () => {
    symlinkSync("in.jsonl", join(desk.dir, "link.jsonl"));
    desk.write("mine.jsonl", ["mine"]);
    const before = readdirSync(desk.dir);
    expect(await said(["run", "in.jsonl", "--out", "in.jsonl"])).toEqual([
      74,
      "perigee: output_unwritable: --out in.jsonl is the input itself: name another file for the answers",
    ]);
    expect(await said(["run", "in.jsonl", "--out", "link.jsonl"])).toEqual([
      74,
      "perigee: output_unwritable: --out link.jsonl is the input in.jsonl: name another file for the answers",
    ]);
    expect(readdirSync(desk.dir)).toEqual(before);
    const [code, message] = await said(["run", "in.jsonl", "--out", "mine.jsonl"]);
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
    expect(desk.lines("out.jsonl")).toMatchObject([
      { key: "a", output: { type: "text", text: "from the box" }, model: expect.stringMatching(/^mybox:/) },
    ]);
    expect(stderr).not.toContain("secret");
  });

  it("that holds no key for an address of its own stops the run with 2 and says which variable to set", async () => {
    const server = createServer((_, response) => {
      response.writeHead(401, { "content-type": "application/json" });
      response.end('{"error":{"message":"Missing bearer","code":"invalid_api_key"}}');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    desk.write("keyless.jsonl", [question("a", "hi", "openai:gpt-4o-mini")]);
    const env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
    const { code, stderr } = await desk.perigee(["run", "keyless.jsonl", "--out", "out.jsonl"], { env });
    server.close();
    expect(code).toBe(2);
    expect(stderr).toContain(
      `held  1 item: authentication: openai at http://127.0.0.1:${port} does not accept the key: no key is set (OPENAI_API_KEY): openai answered 401 (invalid_api_key): the key was not accepted (it says: Missing bearer)\n`,
    );
  });

  it("that holds a key the provider refuses stops the run with 2 and says so, with all items kept", async () => {
    let requests = 0;
    const server = createServer((_, response) => {
      requests += 1;
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
    expect(stderr).toContain(
      `held  40 items: authentication: openai at http://127.0.0.1:${port} does not accept the key: openai answered 401 (invalid_api_key): the key was not accepted (it says: Incorrect API key)\n`,
    );
    expect(stderr).toContain("stopped with 40 items left: held (authentication)\n");
    expect(requests).toBeLessThanOrEqual(2);
    expect(stderr).toContain(
      "to continue: set a key that openai accepts (OPENAI_API_KEY): perigee run paid.jsonl --out out.jsonl\n",
    );
    expect(stderr).not.toContain("sk-wrong");
  });

  it("that a provider function refuses stops the run with 2, names the provider, and quotes nothing of the error", async () => {
    writeFileSync(
      join(desk.dir, "refusing.mjs"),
      'export default async () => { throw Object.assign(new Error("the prompt was: SECRET"), { status: 401 }); };\n',
    );
    writeFileSync(
      join(desk.dir, "c.json"),
      JSON.stringify({ providers: { mine: { module: "./refusing.mjs" } } }),
    );
    desk.write("mine.jsonl", [question("a", "hi", "mine:m")]);
    const args = ["run", "mine.jsonl", "--out", "out.jsonl", "--config", "c.json"];
    const { code, stderr } = await desk.perigee(args);
    expect(code).toBe(2);
    expect(stderr).toContain(
      "held  1 item: authentication: mine does not accept the key: mine answered 401: the key was not accepted\n",
    );
    expect(stderr).toContain(
      "to continue: correct the key that the function of mine uses: perigee run mine.jsonl",
    );
    expect(stderr).not.toContain("SECRET");
  });
});

describe("a configuration that has no effect in part", () => {
  it("is a notice of run and quote alike, which go on", async () => {
    desk.write("config.json", ['{"limits":{"warehouse":{"concurrency":1}}}']);
    for (const words of [
      ["quote", "in.jsonl"],
      ["run", "in.jsonl", "--out", "out.jsonl"],
    ]) {
      const { code, stderr } = await desk.perigee([...words, "--config", "config.json"]);
      expect([code, stderr]).toEqual([
        0,
        expect.stringContaining(
          'perigee: limits["warehouse"] has no effect: provider "warehouse" is not configured',
        ),
      ]);
    }
  });
});
