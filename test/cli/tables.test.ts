/**
 * `perigee run` over a table with the built command: what is asked, what is written, what is refused, and how it continues.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk } from "./command.ts";

/** Bodies of requests that the provider has seen; its answer is JSON about the prompt, or what the prompt wants. */
let bodies: { readonly messages: readonly { readonly content: string }[] }[] = [];
let provider: Server;
let env: Record<string, string>;
beforeAll(async () => {
  provider = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      const sent = JSON.parse(body) as (typeof bodies)[number];
      bodies.push(sent);
      const prompt = sent.messages.at(-1)?.content ?? "";
      const content = sent.messages.some((message) => message.content === "prose")
        ? "no JSON"
        : JSON.stringify({ mood: prompt, stars: 4, tags: ["a"] });
      response.writeHead(prompt.includes("refused") ? 400 : 200, { "content-type": "application/json" });
      response.end(
        JSON.stringify({
          ...{ id: "c", model: "small" },
          choices: [{ message: { content }, finish_reason: "stop" }],
          usage: { prompt_tokens: 9, completion_tokens: 3 },
        }),
      );
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  const { port } = provider.address() as AddressInfo;
  env = { PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${port}/v1` };
});
afterAll(() => {
  provider.closeAllConnections();
  provider.close();
});

let desk: Desk;
beforeEach(() => {
  bodies = [];
  desk = openDesk();
  file("rows.csv", 'id,review\na,"good, very"\nb,\nc,"two\nlines"\n');
  file("prompt.md", "---\nmodel: echo:test\n---\nSay: {{review}}\n");
});
afterEach(() => desk.remove());

const RUN = ["run", "rows.csv", "--prompt", "prompt.md", "--out", "out.csv"];

describe("perigee run over a table", () => {
  it("writes the columns of the table, then output and error, in the order of the rows", async () => {
    const { code, stdout, stderr } = await desk.perigee([...RUN, "--json"]);
    expect(code).toBe(0);
    expect(desk.read("out.csv")).toBe(
      'id,review,output,error\na,"good, very","Say: good, very",\nb,,Say: ,\nc,"two\nlines","Say: two\nlines",\n',
    );
    expect(JSON.parse(stdout)).toMatchObject({ status: "completed", items: 3, output: "out.csv" });
    expect(stderr).toContain("answers  out.csv");
  });

  it("has nothing to do when the same command is given again, and writes an output again that was moved away", async () => {
    await desk.perigee(RUN);
    const before = desk.read("out.csv");
    rmSync(join(desk.dir, "out.csv"));
    const again = await desk.perigee([...RUN, "--json"]);
    expect(JSON.parse(again.stdout)).toMatchObject({ requests_sent: 0 });
    expect(desk.read("out.csv")).toBe(before);
  });

  it("sends system instruction and settings, and writes a column for each property of the schema", async () => {
    file("prompt.md", "---\nmodel: local:small\ntemperature: 0\nmax_output_tokens: 50\n---\n{{review}}");
    file("system.md", "Answer about {{id}}.\n");
    file(
      "schema.json",
      JSON.stringify({
        type: "object",
        properties: { mood: { type: "string" }, stars: { type: "integer" }, tags: { type: "array" } },
      }),
    );
    file("rows.csv", "id,review\na,fine\nb,prose\nc,refused\n");
    const { code } = await desk.perigee(
      [...RUN.slice(0, -1), "out.jsonl", "--system", "system.md", "--schema", "schema.json"],
      { env },
    );
    expect(code).toBe(3);
    expect(bodies[0]).toMatchObject({
      temperature: 0,
      messages: [{ content: expect.stringMatching(/^Answer about [abc]\.$/) }, {}],
      response_format: { type: "json_schema" },
    });
    const [a, b, c] = desk.lines("out.jsonl") as unknown as Record<string, unknown>[];
    expect(a).toEqual({ id: "a", review: "fine", mood: "fine", stars: 4, tags: ["a"], error: null });
    expect(b).toMatchObject({
      mood: null,
      error: "schema_unmet: the answer does not fit its schema: the answer is not JSON",
    });
    expect(bodies.filter(({ messages }) => messages[1]?.content === "prose").length).toBe(3);
    expect((await desk.perigee(["errors", "out.jsonl"])).stdout).toContain(
      'schema_unmet: 1 row, first row 2 (key "2")\n',
    );
    expect(c).toMatchObject({
      mood: null,
      error: "invalid_request: local answered 400: the request was refused",
    });
  });

  it("keeps what was answered when more rows are asked, and when fewer are", async () => {
    await desk.perigee([...RUN, "--limit", "1"]);
    expect(desk.read("out.csv")).toBe('id,review,output,error\na,"good, very","Say: good, very",\n');
    const all = await desk.perigee([...RUN, "--json"]);
    expect(JSON.parse(all.stdout)).toMatchObject({ requests_sent: 2 });
    expect(desk.read("out.csv").split("\n")).toHaveLength(7);
    const sampled = await desk.perigee([...RUN, "--sample", "2", "--seed", "3", "--json"]);
    expect(JSON.parse(sampled.stdout)).toMatchObject({ requests_sent: 0 });
    expect(desk.read("out.csv").match(/Say:/g)).toHaveLength(2);
    expect(sampled.stderr).toContain(
      "1 row is counted above that this command does not ask: kept from an earlier one, and not in the output",
    );
  });

  it("counts answers that were cut at their limit, also those of earlier calls and of rows that are kept", async () => {
    file("rows.csv", "id,review\na,one two three four\nb,\nc,five six seven eight\n");
    file("prompt.md", "---\nmodel: echo:test\nmax_output_tokens: 2\n---\n{{review}}x");
    const cut = async (...words: string[]): Promise<unknown> =>
      (JSON.parse((await desk.perigee([...RUN, ...words, "--json"])).stdout) as { cut?: number }).cut;
    expect(await cut("--limit", "2")).toBe(1);
    expect(await cut()).toBe(2);
    expect(await cut("--sample", "1")).toBe(2);
    const { stderr } = await desk.perigee([...RUN, "--sample", "1"]);
    expect(stderr).toContain("  cut    2 ended at their limit of tokens: raise max_output_tokens\n");
  });

  it("says that answers of another model, or that no schema was checked for, are kept", async () => {
    file("prompt.md", "Say: {{review}}");
    await desk.perigee([...RUN, "--limit", "2", "--model", "echo:a"]);
    const other = await desk.perigee([...RUN, "--model", "echo:b", "--json"]);
    expect(JSON.parse(other.stdout)).toMatchObject({ requests_sent: 1 });
    expect(other.stderr).toContain(
      "2 answers of earlier calls are kept, the last of which was for echo:a; echo:b answers only what is open: to ask everything again, use another output",
    );
    const ended = await desk.perigee([...RUN, "--model", "echo:a"]);
    expect(ended.stderr).toContain(
      "3 answers of earlier calls are kept, the last of which was for echo:b; echo:a answers",
    );
    expect((await desk.perigee([...RUN, "--model", "echo:b"])).stderr).not.toContain("are kept");

    desk.write("lines.jsonl", [{ key: "k", model: "local:small", input: "fine" }]);
    file("schema.json", JSON.stringify({ type: "object" }));
    const lines = ["run", "lines.jsonl", "--out", "lines.out"];
    await desk.perigee(lines, { env });
    const { stderr } = await desk.perigee([...lines, "--schema", "schema.json"], { env });
    expect(stderr).toContain("1 answer of an earlier call is kept without a check against this schema");
    const again = await desk.perigee([...lines, "--schema", "schema.json"], { env });
    expect(again.stderr).not.toContain("is kept");
  });

  it("shows state, errors and steps of the run by the name of the table", async () => {
    await desk.perigee([...RUN, "--key", "id"]);
    expect((await desk.perigee(["status", "out.csv"])).stdout).toMatch(/^answered +3\n/);
    expect((await desk.perigee(["errors", "out.csv"])).stdout).toBe("no row ended in an error\n");
    expect((await desk.perigee(["trace", "out.csv", "b"])).stdout).toMatch(/^b \(row 2\): completed\n/);
    expect((await desk.perigee(["repair", "out.csv"])).stderr).toContain("is as it was written");
  });

  it("--dry-run prints the first requests and sends and writes nothing", async () => {
    const { code, stdout, stderr } = await desk.perigee([...RUN, "--dry-run"]);
    expect(code).toBe(0);
    const [first] = stdout.split("\n").map((line) => (line === "" ? undefined : JSON.parse(line)));
    expect(first).toEqual({
      key: "1",
      request: { model: "echo:test", contents: [{ parts: [{ text: "Say: good, very" }] }] },
    });
    expect(stderr).toContain("dry run: 3 requests were checked, and nothing was sent");
    expect(existsSync(join(desk.dir, "out.csv.perigee"))).toBe(false);
  });

  it("--dry-run says what a run would leave out, and which rows it would hold or fail", async () => {
    file("prompt.md", "---\nmodel: anthropic:claude-opus-4-8\nseed: 3\n---\nSay: {{review}}\n");
    const held = await desk.perigee([...RUN, "--dry-run"]);
    expect(held.code).toBe(0);
    expect(held.stderr).toMatch(
      /warning: seed is left out for anthropic:claude-opus-4-8, .*\(first in row 1\)\n/,
    );
    expect(held.stderr).toMatch(
      /warning: row 1 and others would be held: .* needs a key; set ANTHROPIC_API_KEY/,
    );
    file("prompt.md", "---\nmodel: nope:test\n---\nSay: {{review}}\n");
    const failed = await desk.perigee([...RUN, "--dry-run"]);
    expect([failed.code, failed.stderr]).toEqual([2, expect.stringContaining("3 rows that fail")]);
    expect(failed.stderr).toContain('provider "nope" is not configured');
  });

  it("quotes and plans a table", async () => {
    const quoted = await desk.perigee(["quote", "rows.csv", "--prompt", "prompt.md", "--json"]);
    expect(JSON.parse(quoted.stdout)).toMatchObject({ items: 3 });
    const planned = await desk.perigee(["plan", "rows.csv", "--prompt", "prompt.md", "--json"]);
    expect(planned.code).toBe(0);
  });

  it("simulates a table as the same requests in lines, and draws the rows that a run would draw", async () => {
    const lines = ["good, very", "", "two\nlines"].map((review, index) => ({
      ...{ key: String(index + 1), model: "echo:test" },
      input: `Say: ${review}`,
    }));
    desk.write("lines.jsonl", lines);
    const words = ["--latency", "1", "--no-learn", "--json"];
    const ofTable = await desk.perigee(["simulate", "rows.csv", "--prompt", "prompt.md", ...words]);
    const ofLines = await desk.perigee(["simulate", "lines.jsonl", ...words]);
    expect(JSON.parse(ofTable.stdout)).toEqual(JSON.parse(ofLines.stdout));
    const sample = ["--prompt", "prompt.md", "--sample", "2", "--seed", "7"];
    const drawn = await desk.perigee(["simulate", "rows.csv", ...sample, ...words]);
    expect(JSON.parse(drawn.stdout)).toMatchObject({ items: 2, seeds: [7, 8, 9, 10, 11] });
    const refused = await desk.perigee(["simulate", "rows.csv", "--sample", "2"]);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      "perigee: usage: --sample is for tables: add --prompt with the file of the prompt\n",
    ]);
  });

  it("says that a prompt without a column is the same for every row", async () => {
    file("prompt.md", "---\nmodel: echo:test\n---\nhello");
    const { stderr } = await desk.perigee(RUN);
    expect(stderr).toContain("prompt.md names no column, so every row has the same prompt: write {{id}}");
  });
});

describe("perigee run over a table refuses before anything is sent", () => {
  it.each([
    ["a column that does not exist", [], "Say: {{reveiw}}", 'did you mean "review"?'],
    [
      "a setting that is not known",
      [],
      "---\nmodel: echo:test\ntemprature: 0\n---\nhi",
      'prompt.md: "temprature" is not a setting; did you mean "temperature"?',
    ],
    [
      "a setting out of its range",
      [],
      "---\nmodel: echo:test\ntemperature: 7\n---\nhi",
      "prompt.md: temperature must be",
    ],
    ["settings that are not YAML", [], "---\nmodel: [\n---\nhi", "prompt.md:"],
    [
      "settings that are not ended",
      ["--model", "echo:test"],
      "---\nmodel: echo:test\nhi",
      "no other line --- ends them",
    ],
    ["a prompt without a model", [], "Say: {{review}}", "no model is named: add --model"],
    ["an empty prompt", [], "---\nmodel: echo:test\n---\n\n", "prompt.md has no prompt after its settings"],
    [
      "a key column that does not exist",
      ["--key", "key"],
      undefined,
      '--key: "key" is not a column of rows.csv',
    ],
    ["both a limit and a sample", ["--limit", "1", "--sample", "1"], undefined, "both choose rows"],
    ["lines of a format", ["--format", "raw"], undefined, "--format is for lines of answers"],
  ])("%s", async (_, words, prompt, message) => {
    if (prompt !== undefined) file("prompt.md", prompt);
    const withModel =
      prompt?.startsWith("Say: {{rev") === true && message.includes("mean") ? ["--model", "echo:test"] : [];
    const { code, stderr } = await desk.perigee([...RUN, ...withModel, ...words]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    expect(existsSync(join(desk.dir, "out.csv.perigee"))).toBe(false);
  });

  it("names of answers that the table has, unless --prefix makes others of them", async () => {
    file("rows.csv", "id,review,output\na,b,c\n");
    const refused = await desk.perigee(RUN);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      'perigee: usage: rows.csv already has a column "output", which is the name of a column of the answers: add --prefix with a text before their names, such as --prefix answer_\n',
    ]);
    await desk.perigee([...RUN, "--prefix", "new_"]);
    expect(desk.read("out.csv")).toBe("id,review,output,new_output,new_error\na,b,c,Say: b,\n");
  });

  it("a schema with a field whose name is that of the errors", async () => {
    file("schema.json", JSON.stringify({ type: "object", properties: { error: { type: "string" } } }));
    const { code, stderr } = await desk.perigee([...RUN, "--schema", "schema.json"]);
    expect([code, stderr]).toEqual([
      2,
      'perigee: usage: the schema has a property "error", which is the name of the column for errors: name it otherwise in the schema\n',
    ]);
  });

  it("a table without rows, each time", async () => {
    file("rows.csv", "id,review\n");
    for (let time = 0; time < 2; time += 1) {
      const { code, stderr } = await desk.perigee(RUN);
      expect([code, withoutOpening(stderr)]).toEqual([
        74,
        "perigee: input_unreadable: rows.csv has no rows below its header\n",
      ]);
    }
  });

  it("a prompt in place of its file, and says that a file is wanted", async () => {
    const words = ["run", "rows.csv", "--prompt", "Say: {{review}}", "--out", "out.csv"];
    const { code, stderr } = await desk.perigee(words);
    expect([code, stderr]).toEqual([
      74,
      "perigee: input_unreadable: --prompt: Say: {{review}} does not exist; --prompt takes the name of a file: write the text into one\n",
    ]);
  });

  it("a schema that does not exist, naming it", async () => {
    const { code, stderr } = await desk.perigee([...RUN, "--schema", "none.json"]);
    expect([code, stderr]).toEqual([74, "perigee: input_unreadable: the schema none.json does not exist\n"]);
  });

  it("two rows of one key, and a row without one, naming the table", async () => {
    file("rows.csv", "id,review\na,1\nb,2\na,3\n");
    const twice = await desk.perigee([...RUN, "--key", "id"]);
    expect([twice.code, twice.stderr]).toEqual([
      74,
      expect.stringContaining("rows 1 and 3 that are asked of rows.csv have the same key"),
    ]);
    file("rows.csv", "id,review\na,1\n,2\n");
    const none = await desk.perigee([...RUN, "--key", "id"]);
    expect([none.code, none.stderr]).toEqual([74, expect.stringContaining("line 3 has an empty key")]);
  });

  it("a table or prompt that has changed, until --update is added", async () => {
    await desk.perigee(RUN);
    file("rows.csv", "id,review\na,other\n");
    const changed = await desk.perigee(RUN);
    expect([changed.code, withoutOpening(changed.stderr)]).toEqual([
      74,
      "perigee: input_changed: rows.csv is not the file that this run began with; put it back, run the same command with --update to ask the rows that are new or changed, or start over with another output\n",
    ]);
    await desk.perigee([...RUN, "--update"]);
    expect(desk.read("out.csv")).toBe("id,review,output,error\na,other,Say: other,\n");
  });

  it("an output that is not its own, or was changed", async () => {
    file("out.csv", "mine\n");
    expect((await desk.perigee(RUN)).stderr).toContain("output_unwritable");
    mkdirSync(join(desk.dir, "folder.csv"));
    const folder = await desk.perigee([...RUN.slice(0, -1), "folder.csv"]);
    expect(folder.stderr).toContain("folder.csv is not a file");
    const moved = [...RUN.slice(0, -1), "own.csv"];
    await desk.perigee(moved);
    file("own.csv", `${readFileSync(join(desk.dir, "own.csv"), "utf8")}d,,,\n`);
    const again = await desk.perigee(moved);
    expect([again.code, again.stderr]).toEqual([74, expect.stringContaining("output_changed")]);
  });

  it("options of tables without a prompt, and a table on standard input", async () => {
    const words = ["run", "rows.csv", "--out", "out.csv"];
    expect((await desk.perigee([...words, "--key", "id"])).stderr).toContain(
      "--key is for tables: add --prompt",
    );
    expect((await desk.perigee(words)).stderr).toContain("--prompt");
    const piped = await desk.perigee(["run", "-", "--prompt", "prompt.md", "--out", "out.csv"], {
      stdin: "a\n1\n",
    });
    expect(piped.stderr).toContain("--prompt needs a table in a file");
  });
});

function file(name: string, text: string): void {
  writeFileSync(join(desk.dir, name), text);
}

/** A slow machine shows what is opened. */
function withoutOpening(stderr: string): string {
  return stderr.replace(/^opening .*\n/, "");
}
