/**
 * What the command says when something is missing or fails, word for word.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEngine } from "../../src/engine/library.ts";
import { type Desk, openDesk, question } from "./command.ts";

let desk: Desk;
let server: Server;
/** How the provider answers a prompt. */
let answer: (prompt: string) => { readonly status: number; readonly body: object };
let requests: number;
let env: Record<string, string>;

beforeEach(async () => {
  desk = openDesk();
  requests = 0;
  server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      requests += 1;
      const { messages } = JSON.parse(body) as { messages: { content: string }[] };
      const { status, body: said } = answer(messages[0]?.content ?? "");
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(said));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  env = { PERIGEE_PROVIDER_MYBOX_BASE_URL: `http://127.0.0.1:${port}/v1` };
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
  desk.remove();
});

const RUN_ONE = ["run", "one.jsonl", "--out", "out.jsonl", "--wait", "0"];

const fine = {
  status: 200,
  body: {
    choices: [{ message: { content: "fine" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  },
};

/** Without the summary's figures of time, and without lines of progress, which a slow machine writes. */
async function said(words: readonly string[]): Promise<[number | null, string[]]> {
  const { code, stderr } = await desk.perigee(words, { env });
  const lines = stderr.replaceAll(`${desk.dir}/`, "").trimEnd().split("\n");
  return [code, lines.filter((line) => !/^(time|opening|reading|running|paused|stopping|done) /.test(line))];
}

describe("the command says", () => {
  it("which key is missing for one of several providers, before anything is sent, and answers the others", async () => {
    answer = () => fine;
    desk.write("two.jsonl", [
      question("a", "hi", "mybox:m"),
      question("b", "hi", "openai:gpt-4o-mini"),
      question("c", "hi", "openai:gpt-4o"),
    ]);
    const key = 'provider "openai" needs a key; set OPENAI_API_KEY';
    expect(await said(["run", "two.jsonl", "--out", "out.jsonl"])).toEqual([
      2,
      [
        `line 2 and others are held: ${key}`,
        "items     3 (1 answered, 0 with an error)",
        "tokens    1 in, 1 out",
        "billed    unknown (no known price, partly estimated)",
        "no price  mybox:m: counted as $0, which no --max-cost can bound",
        "answers   out.jsonl",
        "state     out.jsonl.perigee",
        "",
        `held  2 items: key_missing: a key is missing: ${key}`,
        "stopped with 2 items left: held (key_missing)",
        "to continue: set OPENAI_API_KEY: perigee run two.jsonl --out out.jsonl",
      ],
    ]);
    expect(requests).toBe(1);
  });

  it("which provider was meant", async () => {
    desk.write("typo.jsonl", [question("a", "hi", "opnai:gpt-4o")]);
    const meant = 'provider "opnai" is not configured; did you mean "openai"?';
    expect(await said(["run", "typo.jsonl", "--out", "out.jsonl"])).toEqual([
      3,
      [
        `line 1 and others are held: ${meant}`,
        "items    1 (0 answered, 0 with an error)",
        "tokens   0 in, 0 out",
        "billed   $0.00 (nothing to price)",
        "answers  out.jsonl (none yet)",
        "state    out.jsonl.perigee",
        "",
        `held  1 item: provider_missing: a provider is not configured: ${meant}`,
        "stopped with 1 item left: held (provider_missing)",
        'to continue: configure "opnai", or choose another model: perigee run typo.jsonl --out out.jsonl --model <provider>:<name>',
      ],
    ]);
  });

  it("which price a cap needs, and how to add it", async () => {
    desk.write("price.jsonl", [question("a", "hi", "mybox:unheard-of")]);
    expect(await said(["run", "price.jsonl", "--out", "out.jsonl", "--max-cost", "1"])).toEqual([
      3,
      [
        "items    1 (0 answered, 0 with an error)",
        "tokens   0 in, 0 out",
        "billed   $0.00 (nothing to price)",
        "answers  out.jsonl (none yet)",
        "state    out.jsonl.perigee",
        "",
        'held  1 item: price_unknown: a cost cap needs a price: no price is known for mybox:unheard-of, so a cost cap cannot bound it: add "mybox:unheard-of": {"input_mtok": ..., "output_mtok": ...} (USD per million tokens) to "models" of the price sheet',
        "stopped with 1 item left: held (price_unknown)",
        'to continue: write a price sheet, {"version": "1", "models": {"mybox:unheard-of": {"input_mtok": <usd>, "output_mtok": <usd>}}}: perigee run price.jsonl --out out.jsonl --max-cost 1 --prices <sheet.json>',
      ],
    ]);
    expect(requests).toBe(0);
    const { stderr } = await desk.perigee(["run", "price.jsonl", "--out", "out.jsonl", "--max-cost", "1"], {
      env,
    });
    const sheet = /price sheet, (.*): perigee/.exec(stderr)?.[1] ?? "";
    desk.write("sheet.json", [JSON.parse(sheet.replaceAll("<usd>", "0.5"))]);
    answer = () => fine;
    const words = ["run", "price.jsonl", "--out", "out.jsonl", "--max-cost", "1", "--prices", "sheet.json"];
    expect((await said(words))[0]).toBe(0);
  });

  it("that an account needs money, and that waiting is enough when a provider does not answer", async () => {
    desk.write("one.jsonl", [question("a", "hi", "mybox:m")]);
    const last = async (): Promise<string | undefined> => (await said(RUN_ONE))[1].at(-1);
    answer = () => ({ status: 402, body: { error: { message: "no credit", code: "insufficient_quota" } } });
    expect(await last()).toBe(
      "to continue: add credit to the account of mybox: perigee run one.jsonl --out out.jsonl --wait 0",
    );
    answer = () => ({ status: 503, body: {} });
    expect(await last()).toBe(
      "to continue (--finish ends what is held with its error): perigee run one.jsonl --out out.jsonl --wait 0",
    );
  });

  it("which model to replace, and in a file with other holds that its lines are to be corrected", async () => {
    const refused = { status: 404, body: { error: { message: "no such model", code: "model_not_found" } } };
    answer = () => refused;
    desk.write("one.jsonl", [question("a", "hi", "mybox:m")]);
    expect((await said([...RUN_ONE, "--model", "mybox:other"]))[1].at(-1)).toBe(
      "to continue: choose another model: perigee run one.jsonl --out out.jsonl --wait 0 --model <provider>:<name>",
    );
    expect((await desk.perigee(["status", "out.jsonl"])).stdout).toContain("billed     $0.00\n");
    desk.write("two.jsonl", [question("a", "hi", "mybox:m"), question("b", "hi", "openai:gpt-4o")]);
    const [code, lines] = await said(["run", "two.jsonl", "--out", "out2.jsonl", "--wait", "0"]);
    expect(code).toBe(3); // a key that is not set is not all
    expect(lines.at(-1)).toBe(
      "to continue: correct the model in the lines and add --update; set OPENAI_API_KEY: perigee run two.jsonl --out out2.jsonl --wait 0",
    );
  });

  it("after an update how many keys are gone from the input, and how to remove their lines", async () => {
    desk.write("grown.jsonl", [question("a"), question("b"), question("c")]);
    const run = ["run", "grown.jsonl", "--out", "out.jsonl"];
    await said(run);
    desk.write("grown.jsonl", [question("a"), question("d")]);
    const gone = "2 keys are no longer in the input; their lines are kept (to remove: --update --prune)";
    const update = "update: 1 kept, 0 changed, 1 new or without a line before, 2 no longer in the input";
    const summary = (items: number, tokens: number) => [
      `items    ${items} (${items} answered, 0 with an error)`,
      `tokens   ${tokens} in, ${tokens} out`,
      expect.stringMatching(/^billed {3}\$0\.00 \(local, [\d-]{10}\)$/),
      "answers  out.jsonl",
      "state    out.jsonl.perigee",
    ];
    expect(await said([...run, "--update"])).toEqual([0, [...summary(4, 4), update, gone]]);
    expect(desk.lines("out.jsonl")).toHaveLength(4);
    expect(await said([...run, "--update"])).toEqual([0, [...summary(4, 4), gone]]); // nothing has changed since
    const pruned =
      "update: 2 kept, 0 changed, 0 new or without a line before; 2 removed, no longer in the input";
    expect(await said([...run, "--update", "--prune"])).toEqual([0, [...summary(2, 4), pruned]]);
    expect(desk.lines("out.jsonl").map(({ key }) => key)).toEqual(["a", "d"]);
    expect(await said([...run, "--update", "--prune"])).toEqual([0, summary(2, 4)]);
  });

  it("of an update what becomes of each line, which adds up to the items of the summary", async () => {
    answer = () => fine;
    const held = question("d", "hi", "nobox:m");
    const lines = [question("a"), "not JSON", question("b", "old"), question("c"), held];
    desk.write("grown.jsonl", lines);
    const run = ["run", "grown.jsonl", "--out", "out.jsonl", "--wait", "0"];
    await said(run);
    const now = [question("n"), "", held, question("a"), question("b", "new"), "not JSON"];
    desk.write("grown.jsonl", now);
    const [, after] = await said([...run, "--update"]);
    expect(after).toContain("items           6 (4 answered, 1 with an error)");
    expect(after).toContain(
      "update: 1 kept, 1 changed, 3 new or without a line before, 1 no longer in the input",
    );
    expect(after).toContain("stopped with 1 item left: held (provider_missing)");
  });

  it.each([
    ["its own", ["--max-cost", "0.01"], "--max-cost <usd>"],
    ["a shared", ["--cap=nov=0.01"], "--cap nov=<usd>"],
  ])("how high %s cap has to be, and a cap of that amount is enough", async (_, cap, flag) => {
    answer = () => fine;
    desk.write("prices.json", [
      { version: "1", models: { "mybox:m": { input_mtok: 1, output_mtok: 2_500 } } },
    ]);
    const body = (tokens: number) => ({ max_tokens: tokens, model: "mybox:m" });
    const messages = [{ role: "user", content: "hi" }];
    desk.write("cap.jsonl", [
      { custom_id: "a", body: { ...body(3), messages } },
      { custom_id: "b", body: { ...body(8), messages } },
      { custom_id: "c", body: { ...body(20), messages } },
    ]);
    const words = ["run", "cap.jsonl", "--out", "out.jsonl", "--prices", "prices.json"];
    const [code, lines] = await said([...words, ...cap]);
    expect([code, lines.at(-1)]).toEqual([
      3,
      `to continue: raise the cap to at least $0.023 ($0.073 is enough for all): perigee ${words.join(" ")} ${flag}`,
    ]);
    const higher = (usd: string): string[] => flag.replace("<usd>", usd).split(" ");
    expect((await said([...words, ...higher("0.022")]))[1].at(-1)).toBe(lines.at(-1));
    expect(requests).toBe(1);
    expect((await said([...words, ...higher("0.023")]))[1].join()).toContain("stopped with 1 item left");
    expect(requests).toBe(2);
    expect((await said([...words, ...higher("0.073")]))[0]).toBe(0);
  });

  it("a cap that is enough for all that is left, items without a key included, and every reason that holds items", async () => {
    answer = () => fine;
    const price = { input_mtok: 1, output_mtok: 2_500 };
    const sheet = (models: object) => desk.write("prices.json", [{ version: "1", models }]);
    sheet({ "mybox:m": price, "groq:m": price });
    const line = (key: string, model: string, max_tokens: number) => ({
      custom_id: key,
      body: { model, max_tokens, messages: [{ role: "user", content: "hi" }] },
    });
    desk.write("two.jsonl", [line("a", "mybox:m", 3), line("b", "mybox:m", 8), line("c", "groq:m", 20)]);
    const words = ["run", "two.jsonl", "--out", "out.jsonl", "--prices", "prices.json", "--max-cost"];
    const [code, lines] = await said([...words, "0.01"]);
    expect([code, ...lines.slice(-2)]).toEqual([
      3,
      "stopped with 2 items left: held (cap_reached, key_missing)",
      `to continue: raise the cap to at least $0.023 ($0.073 is enough for all); set GROQ_API_KEY: perigee ${words.join(" ")} <usd>`,
    ]);
    sheet({ "mybox:m": price });
    expect((await said([...words, "0.01"]))[1].at(-1)).toContain("raise the cap to at least $0.023; set");
    sheet({ "mybox:m": price, "groq:m": price });
    const base = env["PERIGEE_PROVIDER_MYBOX_BASE_URL"] ?? "";
    env = { ...env, GROQ_API_KEY: "k", GROQ_BASE_URL: base };
    expect((await said([...words, "0.073"]))[0]).toBe(0);
  });

  it("that a known provider at another base URL has no key, until it is set or not needed", async () => {
    answer = () => fine;
    const base = env["PERIGEE_PROVIDER_MYBOX_BASE_URL"] ?? "";
    desk.write("one.jsonl", [question("a", "hi", "groq:m")]);
    const runWith = async (groq: object, variables: Record<string, string> = {}) => {
      desk.write("c.json", [{ providers: { groq: { baseUrl: base, ...groq } } }]);
      env = variables;
      const [code, lines] = await said([...RUN_ONE, "--config", "c.json", "--update"]);
      return { code, notes: lines.filter((line) => line.includes("key")) };
    };
    const note = `perigee: provider "groq" has no key, and requests to ${new URL(base).origin} are sent without one: set GROQ_API_KEY, or, if the server needs no key, providers.groq.needsKey to false`;
    expect(await runWith({})).toEqual({ code: 0, notes: [note] });
    for (const said of [{ needsKey: false }, { key: "k" }, { headers: { authorization: "Basic abc" } }])
      expect(await runWith(said)).toEqual({ code: 0, notes: [] });
    expect(await runWith({}, { GROQ_API_KEY: "k" })).toEqual({ code: 0, notes: [] });
    expect((await runWith({ needsKey: true, timeoutMs: 5_000 })).notes).toEqual([]); // nothing is left to send
    desk.write("one.jsonl", [question("b", "hi", "groq:m")]);
    expect((await runWith({ needsKey: true })).notes).toContain(
      'line 1 and others are held: provider "groq" needs a key; set GROQ_API_KEY',
    );
  });

  it("nothing of a key that no line of the input needs", async () => {
    answer = () => fine;
    desk.write("one.jsonl", [question("a", "hi", "mybox:m")]);
    env = { ...env, OPENAI_BASE_URL: env["PERIGEE_PROVIDER_MYBOX_BASE_URL"] ?? "" };
    const [code, lines] = await said(RUN_ONE);
    expect([code, lines.filter((line) => line.includes("OPENAI"))]).toEqual([0, []]);
  });

  it("that no line has the error which is to be run again", async () => {
    answer = () => fine;
    desk.write("one.jsonl", [question("a", "hi", "mybox:m")]);
    expect((await said(RUN_ONE))[0]).toBe(0);
    for (const [option, errors] of [
      ["--retry-failed", "an error that may pass when it is tried again"],
      ["--retry-failed=timeout,filtered", "timeout or filtered"],
    ] as const) {
      const [code, lines] = await said([...RUN_ONE, option]);
      expect([code, lines[0]]).toEqual([
        0,
        `perigee: no line of out.jsonl has ended in ${errors}: none is run again`,
      ]);
    }
  });

  it("who works in the data folder, and what to do when runs are to share a cap at the same time", async () => {
    answer = () => ({ status: 503, body: {} });
    desk.write("one.jsonl", [question("a", "hi", "mybox:m")]);
    const words = ["run", "one.jsonl", "--cap", "evals=5", "--data", "work", "--out"];
    const engine = await createEngine({ dataDir: join(desk.dir, "work") });
    try {
      expect(await said([...words, "out.jsonl"])).toEqual([
        74,
        [
          `perigee: data_dir_in_use: data folder work is held by pid ${process.pid}; wait until that has ended, or use another --data; runs that share a --cap at the same time need one engine: perigee serve, or the library`,
        ],
      ]);
      await expect(createEngine({ dataDir: join(desk.dir, "work") })).rejects.toMatchObject({
        message: `data folder ${join(desk.dir, "work")} is held by another engine of this process (pid ${process.pid}); wait until that has ended, or use another folder; runs that share a cap at the same time need one engine`,
      });
    } finally {
      await engine.close();
    }
  });

  it("at the end which errors there were: code, count, first line, message, and how to see all", async () => {
    answer = (prompt) =>
      prompt === "good"
        ? fine
        : { status: 400, body: { error: { message: `no ${prompt} here`, code: "content_filter" } } };
    desk.write("some.jsonl", [
      question("a", "good", "mybox:m"),
      question("b", "bad", "mybox:m"),
      question("c", "bad", "mybox:m"),
      "no json",
    ]);
    const [code, lines] = await said(["run", "some.jsonl", "--out", "out.jsonl"]);
    expect(code).toBe(3);
    expect(lines.slice(lines.indexOf("errors"))).toEqual([
      "errors",
      '  filtered: 2 lines, first line 2 (key "b"): mybox answered 400 (content_filter): the prompt was refused by a content filter',
      "  invalid_json: 1 line, first line 4: the line is not one JSON value",
      "to see what to do about them: perigee errors out.jsonl",
    ]);
  });

  it("while it waits who does not answer, where, why, and when it is tried again", async () => {
    answer = () => ({ status: 503, body: { error: { message: "down for a while" } } });
    desk.write("down.jsonl", [question("a", "hi", "mybox:m")]);
    const { code, stderr } = await desk.perigee(
      ["run", "down.jsonl", "--out", "out.jsonl", "--wait", "12s"],
      { env },
    );
    expect(code).toBe(3);
    const address = env["PERIGEE_PROVIDER_MYBOX_BASE_URL"]?.replace("/v1", "");
    const held = `mybox at ${address} is not available: mybox answered 503: the provider is not available`;
    const paused = stderr.split("\n").find((line) => line.startsWith("paused"));
    expect(
      paused
        ?.replace(/next try (in 0:\d\d|now)/, "next try in N s")
        .replace(/\d:\d\d elapsed/, "N elapsed")
        .replace(/\d+ retr\w+/, "1 retry")
        .replace(/[01]\/\d+ in/, "N/N in"),
    ).toBe(
      `paused   0/1 0%  held 1 by outage: ${held}; next try in N s  ETA ?  0/s  0 errors  1 retry  $0.00 billed  0 tok/s  N elapsed  [mybox N/N in flight]`,
    );
    expect(stderr).toContain(`held  1 item: outage: ${held}\nstopped with 1 item left: held (outage)\n`);
  });
});

describe("a key that the provider refuses", () => {
  it("is named by the place where it is set, because the others are not read", async () => {
    answer = () => ({ status: 401, body: {} });
    const baseUrl = env["PERIGEE_PROVIDER_MYBOX_BASE_URL"];
    const keyed = { providers: { mybox: { baseUrl, key: "sk-wrong-wrong" } } };
    desk.write("one.jsonl", [question("a", "hi", "mybox:m")]);
    desk.write("keyed.json", [JSON.stringify(keyed)]);
    const command = `perigee ${RUN_ONE.join(" ")}`;
    expect((await said([...RUN_ONE, "--config", "keyed.json"]))[1]).toContain(
      `to continue: set a key that mybox accepts (providers.mybox.key in keyed.json): ${command} --config keyed.json`,
    );
    env = { ...env, PERIGEE_PROVIDER_OPENAI_KEY: "sk-third-third", OPENAI_API_KEY: "sk-other-other" };
    env["OPENAI_BASE_URL"] = baseUrl ?? "";
    expect((await said([...RUN_ONE, "--model", "openai:m"]))[1]).toContain(
      `to continue: set a key that openai accepts (PERIGEE_PROVIDER_OPENAI_KEY): ${command} --model openai:m`,
    );
  });
});
