/**
 * A file whose lines go to three providers, killed three times on the way. `PERIGEE_TEST_INPUTS` names further files
 * (comma separated, layouts of the interface or of OpenAI) that are put through the same.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { startThreeProtocols, type ThreeProtocols } from "./three_protocols.ts";

const dir = mkdtempSync(join(tmpdir(), "perigee-three-"));
const given = (process.env["PERIGEE_TEST_INPUTS"] ?? "").split(",").filter((path) => path !== "");

let server: ThreeProtocols;

beforeAll(async () => {
  server = await startThreeProtocols(40);
});

afterAll(async () => {
  await server.close();
  rmSync(dir, { recursive: true, force: true });
});

function writeMixed(): string {
  const models = ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5", "gemini:gemini-2.5-flash"];
  const lines = Array.from({ length: 600 }, (_, index) =>
    JSON.stringify({
      key: `mixed-${index}`,
      request: {
        model: models[index % 3],
        contents: [{ parts: [{ text: `Frage ${index}: 何ですか? What is it?` }] }],
        system_instruction: { parts: [{ text: "Answer briefly." }] },
        generation_config: { max_output_tokens: 64 },
      },
    }),
  );
  const path = join(dir, "mixed.jsonl");
  writeFileSync(path, `${lines.join("\n")}\n`);
  return path;
}

/** Runs the command; after `killAfterLines` lines of output it is killed. */
function run(input: string, out: string, killAfterLines?: number): Promise<number | null> {
  const child = spawn(process.execPath, [MAIN, "run", input, "--out", out], {
    stdio: "ignore",
    env: {
      ...process.env,
      PERIGEE_PROVIDER_OPENAI_BASE_URL: `${server.url}/v1`,
      PERIGEE_PROVIDER_ANTHROPIC_BASE_URL: server.url,
      PERIGEE_PROVIDER_GEMINI_BASE_URL: server.url,
      PERIGEE_PROVIDER_OPENAI_KEY: "k",
      PERIGEE_PROVIDER_ANTHROPIC_KEY: "k",
      PERIGEE_PROVIDER_GEMINI_KEY: "k",
      PERIGEE_MAX_INFLIGHT: "32",
    },
  });
  const watch = setInterval(() => {
    if (killAfterLines !== undefined && linesOf(out).length >= killAfterLines) child.kill("SIGKILL");
  }, 5);
  return new Promise((resolve) => {
    child.on("exit", (code) => {
      clearInterval(watch);
      resolve(code);
    });
  });
}

function linesOf(path: string): string[] {
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
}

function keysOf(input: string): string[] {
  return linesOf(input).map((line) => {
    const { key, custom_id } = JSON.parse(line) as { key?: string; custom_id?: string };
    return key ?? custom_id ?? "";
  });
}

describe("a file for three providers", () => {
  it.each([writeMixed(), ...given])(
    "is answered key by key through three kills: %s",
    async (input) => {
      const out = join(dir, `${basename(input)}.out`);
      const keys = keysOf(input);
      const sentBefore = server.prompts.length;
      for (const share of [0.2, 0.45, 0.7]) expect(await run(input, out, keys.length * share)).toBe(null);
      expect(await run(input, out)).toBe(0);
      const answers = linesOf(out).map(
        (line) => JSON.parse(line) as { key: string; output: { text: string } },
      );
      expect(answers.map((answer) => answer.key).sort()).toEqual([...keys].sort());
      expect(answers.every((answer) => answer.output.text.startsWith("answer: "))).toBe(true);
      const sent = server.prompts.length - sentBefore;
      expect(sent - keys.length).toBeLessThanOrEqual(3 * 3 * 32); // kills, providers, requests in flight
      expect(await run(input, out)).toBe(0);
      expect(server.prompts.length - sentBefore).toBe(sent);
    },
    120_000,
  );
});
