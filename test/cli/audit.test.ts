/** `perigee audit LOG`, as a user starts it. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { openDesk } from "./command.ts";

const desk = openDesk();
afterAll(() => desk.remove());

const ROW = {
  spend: 0.02,
  prompt_tokens: 1_000,
  completion_tokens: 2_000,
  startTime: "2026-10-24T22:02:42.975Z",
  endTime: "2026-10-24T22:02:43.975Z",
  model: "gpt-5",
  custom_llm_provider: "openai",
};
const MESSAGE = { type: "message", model: "no-such-model", usage: { input_tokens: 5, output_tokens: 5 } };

describe("perigee audit of a log", () => {
  it("prints period, sums, models, slas, and what is not known", async () => {
    desk.write("log.jsonl", [ROW, ROW, MESSAGE]);
    const { code, stdout, stderr } = await desk.perigee(["audit", "log.jsonl", "--sla", "15,1440"]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("period             2026-10-24 22:02 to 2026-10-24 22:02 UTC\n");
    expect(stdout).toMatch(
      /^openai:gpt-5 +2 +2\.0k +0 +4\.0k +\$0\.0425 +\$0\.0425 +\$0\.0400 +\$0\.0227 flex/m,
    );
    expect(stdout).toMatch(/^anthropic:no-such-model +1 .*unknown/m);
    expect(stdout).toMatch(/^sla 1d +\$0\.0227 +\$0\.0173 \(43%\) +flex \$0\.0227$/m);
    expect(stdout).toContain("no price is known for anthropic:no-such-model: 1 request is in no amount");
  });

  it("prints one JSON object with --json, from standard input as from a file", async () => {
    const name = desk.write("log.jsonl", [ROW]);
    const fromFile = await desk.perigee(["audit", name, "--json"]);
    const fromInput = await desk.perigee(["audit", "-", "--json"], { stdin: desk.read(name) });
    expect([fromFile.code, fromInput.code]).toEqual([0, 0]);
    expect(fromInput.stdout).toBe(fromFile.stdout);
    expect(JSON.parse(fromFile.stdout)).toMatchObject({
      lines: 1,
      requests: 1,
      stated_usd: 0.02,
      slas: [{ sla_minutes: 15 }, { sla_minutes: 60 }, { sla_minutes: 1_440 }],
    });
  });

  it("ends with 3 when lines were not understood, and names the first", async () => {
    desk.write("log.jsonl", [ROW, "what", { hello: 1 }]);
    const { code, stdout } = await desk.perigee(["audit", "log.jsonl"]);
    expect(code).toBe(3);
    expect(stdout).toContain(
      "2 of 3 lines were not understood, or not completely; the first:\n  line 2: not valid JSON\n",
    );
  });

  it("uses the prices of a sheet before others", async () => {
    desk.write("log.jsonl", [MESSAGE]);
    const sheet = {
      version: "1",
      models: { "anthropic:no-such-model": { input_mtok: 1e5, output_mtok: 1e5 } },
    };
    writeFileSync(join(desk.dir, "prices.json"), JSON.stringify(sheet));
    const { stdout } = await desk.perigee(["audit", "log.jsonl", "--prices", "prices.json", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ list_usd: 1, unpriced_models: [] });
  });

  it("refuses what is not lines of text, with 74, and says what to do", async () => {
    writeFileSync(join(desk.dir, "log.jsonl.gz"), gzipSync(JSON.stringify(ROW)));
    const packed = await desk.perigee(["audit", "log.jsonl.gz"]);
    expect([packed.code, packed.stdout]).toEqual([74, ""]);
    expect(packed.stderr).toBe(
      "perigee: unsupported_encoding: log.jsonl.gz is compressed (gzip), expected JSON lines in UTF-8; unpack it, for example: zcat log.jsonl.gz | perigee audit -\n",
    );
    const missing = await desk.perigee(["audit", "nowhere.jsonl", "--json"]);
    expect([missing.code, JSON.parse(missing.stdout)]).toMatchObject([
      74,
      { status: "failed", error: { code: "input_unreadable" } },
    ]);
  });

  it("refuses options that do not belong together, with 2", async () => {
    desk.write("log.jsonl", [ROW]);
    const codes = [];
    for (const words of [
      ["--sla", "15"],
      ["log.jsonl", "--data", "x"],
      ["log.jsonl", "--sla", "0"],
      ["log.jsonl", "--sla", "x"],
    ])
      codes.push((await desk.perigee(["audit", ...words])).code);
    expect(codes).toEqual([2, 2, 2, 2]);
  });

  it("shows names of a log without what a terminal would obey", async () => {
    desk.write("log.jsonl", [{ ...MESSAGE, model: "red \u001b[31m\u0007model" }]);
    const { code, stdout } = await desk.perigee(["audit", "log.jsonl"]);
    expect(code).toBe(0);
    expect(stdout).toContain("red \ufffd[31m\ufffdmodel");
    for (const obeyed of ["\u001b", "\u0007"]) expect(stdout).not.toContain(obeyed);
  });

  it("does not count amounts that are no amounts", async () => {
    const cost = (amount: unknown) => ({
      starting_at: "2026-10-01T00:00:00Z",
      results: [{ currency: "USD", amount }],
    });
    desk.write("log.jsonl", [
      ROW,
      { ...ROW, spend: 1e308 },
      { ...ROW, spend: 1e308 },
      { data: [cost("1e400")] },
      { data: [cost("250")] },
    ]);
    const { code, stdout } = await desk.perigee(["audit", "log.jsonl", "--json"]);
    expect(code).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({
      stated_usd: 0.02,
      costs: [{ provider: "anthropic", usd: 2.5 }],
    });
  });

  it("reads an empty log", async () => {
    desk.write("empty.jsonl", []);
    const { code, stdout } = await desk.perigee(["audit", "empty.jsonl"]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("the log is empty")]);
  });
});
