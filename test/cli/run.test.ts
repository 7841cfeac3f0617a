import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk, question } from "./command.ts";

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
});
afterEach(() => desk.remove());

describe("perigee run", () => {
  it("answers every key once, says so only on stderr, and ends with 0", async () => {
    const keys = Array.from({ length: 500 }, (_, index) => `k${index}`);
    desk.write(
      "in.jsonl",
      keys.map((key) => question(key, `text of ${key}`)),
    );
    const { code, stdout, stderr } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    const answers = new Map(desk.lines("out.jsonl").map((line) => [line.key, line.output?.text]));
    expect(answers).toEqual(new Map(keys.map((key) => [key, `text of ${key}`])));
    expect(stderr).toContain("done     500/500 100%  0 errors");
    expect(stderr).toContain("items    500 (500 answered, 0 with an error)");
  });

  it("ends with 3 when some lines have an error, which names code and line", async () => {
    desk.write("in.jsonl", [question("a"), "not json", question("c", "c", "gpt-4o"), question("d")]);
    const { code, stderr } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"]);
    expect(code).toBe(3);
    expect(stderr).toMatch(/items +4 \(2 answered, 2 with an error\)\n +invalid_json +1\n +unknown_model +1/);
    const failed = desk.lines("out.jsonl").filter((line) => line.output === null);
    expect(failed.map(({ key, error }) => [key, error?.code, error?.line])).toEqual([
      [null, "invalid_json", 2],
      ["c", "unknown_model", 3],
    ]);
  });

  it("with --json prints one object on stdout and the rest on stderr", async () => {
    desk.write("in.jsonl", [question("a"), question("b")]);
    const { stdout, stderr } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--json"]);
    const summary = JSON.parse(stdout) as object;
    expect(stdout.split("\n")).toHaveLength(2);
    expect(summary).toMatchObject({
      status: "completed",
      items: 2,
      counts: { submitted: 0, completed: 2, failed: 0, expired: 0, cancelled: 0 },
      errors: {},
      requests_sent: 2,
      output: join(desk.dir, "out.jsonl"),
    });
    expect(stderr).toContain("done     2/2");
  });

  it("sends nothing when the same command is given again, and ends the same way", async () => {
    desk.write("in.jsonl", [question("a"), "nonsense"]);
    const words = ["run", "in.jsonl", "--out", "out.jsonl", "--json"];
    const first = await desk.perigee(words);
    const output = desk.read("out.jsonl");
    const second = await desk.perigee(words);
    expect([first.code, second.code]).toEqual([3, 3]);
    expect(desk.read("out.jsonl")).toBe(output);
    expect(JSON.parse(first.stdout)).toMatchObject({ items: 2, requests_sent: 1 });
    expect(JSON.parse(second.stdout)).toMatchObject({ items: 2, requests_sent: 0 });
    expect(second.stderr).toContain("(nothing was sent in realtime)");
  });

  it("refuses an output that is not what was recorded", async () => {
    desk.write("in.jsonl", [question("a"), question("b")]);
    const words = ["run", "in.jsonl", "--out", "out.jsonl"];
    await desk.perigee(words);
    desk.write("out.jsonl", [{ key: "a", output: { type: "text", text: "mine" } }]);
    const { code, stderr } = await desk.perigee(words);
    expect(code).toBe(74);
    expect(stderr).toContain("output_changed");
  });

  it("writes in the order of the input with --ordered", async () => {
    const keys = Array.from({ length: 300 }, (_, index) => `k${index}`);
    desk.write(
      "in.jsonl",
      keys.map((key, index) => (index === 7 ? "broken" : question(key))),
    );
    const { code } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--ordered"]);
    expect(code).toBe(3);
    expect(desk.lines("out.jsonl").map((line) => line.key)).toEqual(
      keys.map((key, index) => (index === 7 ? null : key)),
    );
  });

  it("runs all lines on the model of --model", async () => {
    desk.write("in.jsonl", [question("a", "x", "openai:gpt-4o-mini"), question("b", "y", "no model")]);
    const { code } = await desk.perigee(["run", "in.jsonl", "-o", "out.jsonl", "--model", "echo:dry-run"]);
    expect(code).toBe(0);
  });

  it("reads standard input under the name -, all of it", async () => {
    const keys = Array.from({ length: 3_000 }, (_, index) => `k${index}`);
    const stdin = keys.map((key) => `${JSON.stringify(question(key, key.repeat(20)))}\n`).join("");
    const { code } = await desk.perigee(["run", "-", "--out", "out.jsonl"], { stdin });
    expect(code).toBe(0);
    expect(new Set(desk.lines("out.jsonl").map((line) => line.key))).toEqual(new Set(keys));
  });

  it("reads a .json file that holds one array", async () => {
    desk.write("in.json", [JSON.stringify([question("a"), question("b")], null, 2)]);
    const { code } = await desk.perigee(["run", "in.json", "--out", "out.jsonl"]);
    expect(code).toBe(0);
    expect(desk.lines("out.jsonl")).toHaveLength(2);
  });

  it("keeps its state beside the output, or where --data says", async () => {
    desk.write("in.jsonl", [question("a")]);
    await desk.perigee(["run", "in.jsonl", "--out", "one.jsonl"]);
    await desk.perigee(["run", "in.jsonl", "--out", "two.jsonl", "--data", "state"]);
    expect(existsSync(join(desk.dir, "one.jsonl.perigee"))).toBe(true);
    expect(existsSync(join(desk.dir, "two.jsonl.perigee"))).toBe(false);
    expect(existsSync(join(desk.dir, "state"))).toBe(true);
  });

  it("completes an empty file at once, with an empty output", async () => {
    desk.write("in.jsonl", []);
    const { code } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"]);
    expect(code).toBe(0);
    expect(desk.read("out.jsonl")).toBe("");
  });
});

describe("perigee quote", () => {
  it("prints tokens, price and time of each model as a table, and sends nothing", async () => {
    desk.write("in.jsonl", [
      question("a", "Hello", "openai:gpt-4o-mini"),
      question("b", "Hello", "openai:gpt-4o-mini"),
    ]);
    const words = ["quote", "--sla", "60,1440", "in.jsonl"];
    const { code, stdout, stderr } = await desk.perigee(words, { env: { OPENAI_API_KEY: "none is sent" } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("openai:gpt-4o-mini\n");
    expect(stdout).toMatch(/input tokens +16\n/);
    expect(stdout).toMatch(/sla 1440 min +feasible under the limits/);
  });

  it("says how to add the price of a model that has none, and takes it from a sheet", async () => {
    const model = "openai:gpt-nobody-knows";
    desk.write("in.jsonl", [question("a", "Hello", model)]);
    const line = `add "${model}": {"input_mtok": ..., "output_mtok": ...} (USD per million tokens) to "models" of the price sheet`;
    expect((await desk.perigee(["quote", "in.jsonl"])).stdout).toContain(`not known: ${line}\n`);
    const capped = ["run", "in.jsonl", "--out", "out.jsonl", "--max-cost", "1"];
    const { code, stderr } = await desk.perigee(capped, { env: { OPENAI_API_KEY: "none is sent" } });
    expect(code).toBe(3);
    expect(stderr).toContain(`no price is known for ${model}, so a cost cap cannot bound it: ${line}\n`);
    expect(stderr).toMatch(/to continue: write a price sheet, .*: .* --prices <sheet\.json>\n$/);
    expect(desk.read("out.jsonl")).toBe("");
    const sheet = { version: "2026-11-20", models: { [model]: { input_mtok: 1, output_mtok: 2 } } };
    desk.write("sheet.json", [sheet]);
    const { stdout } = await desk.perigee(["quote", "in.jsonl", "--json", "--prices", "sheet.json"]);
    expect(JSON.parse(stdout).models[0].price).toMatchObject({
      source: "sheet 2026-11-20",
      as_of: "2026-11-20",
      output_usd_per_million: 2,
    });
  });

  it("prints the same as one JSON object with --json", async () => {
    desk.write("in.jsonl", [question("a", "Hello", "openai:gpt-4o-mini")]);
    const words = ["quote", "in.jsonl", "--json", "--sla", "60", "--sla", "1440"];
    const { code, stdout } = await desk.perigee(words);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      object: "quote",
      items: 1,
      input_tokens: 8,
      slas: [{ sla_minutes: 60 }, { sla_minutes: 1_440, price_factor: 0.5 }],
    });
  });
});
