import { describe, expect, it } from "vitest";
import { requestLines } from "../../src/satellites/builtin/batch_inference/request_lines.ts";

const settings = { model: "echo:m", generation_config: { temperature: 0.5 } };

async function rewritten(text: string, cut = text.length): Promise<string> {
  const bytes = Buffer.from(text);
  const chunks = async function* () {
    for (let at = 0; at < bytes.length; at += cut) yield bytes.subarray(at, at + cut);
  };
  const out: Uint8Array[] = [];
  for await (const chunk of requestLines(chunks(), settings)) out.push(chunk);
  return Buffer.concat(out).toString();
}

describe("a file of prompts", () => {
  it("becomes a file of requests, however its bytes come", async () => {
    const text = '{"key":"a","prompt":"Grüße"}\n\n{"key":"b","prompt":"x"}';
    for (const cut of [1, 7, 1_000]) {
      const lines = (await rewritten(text, cut)).split("\n");
      expect(JSON.parse(lines[0] ?? "")).toEqual({
        key: "a",
        request: {
          model: "echo:m",
          contents: [{ parts: [{ text: "Grüße" }] }],
          generation_config: { temperature: 0.5 },
        },
      });
      expect(lines[1]).toBe("");
      expect(JSON.parse(lines[2] ?? "").key).toBe("b");
    }
  });

  it("keeps what requests say themselves, but for the model", async () => {
    const line =
      '{"key":"a","request":{"model":"x:y","contents":[],"generation_config":{"seed":12345678901234567890,"temperature":1}}}';
    expect(await rewritten(line)).toBe(
      '{"key":"a","request":{"model":"echo:m","contents":[],"generation_config":{"temperature":1,"seed":12345678901234567890}}}\n',
    );
  });

  it("passes lines that are neither, so that they fail under their keys", async () => {
    const text = '{"key":"a"}\nnonsense\n[1]\n';
    expect(await rewritten(text)).toBe(text);
  });

  it("refuses a line above the limit of lines", async () => {
    const chunks = async function* () {
      for (let count = 0; count < 12; count += 1) yield new Uint8Array(1024 * 1024).fill(0x61);
    };
    const all = async (): Promise<void> => {
      for await (const _ of requestLines(chunks(), settings));
    };
    await expect(all()).rejects.toMatchObject({ code: "too_large" });
  });
});
