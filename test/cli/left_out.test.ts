import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk } from "./command.ts";

let desk: Desk;
let server: Server;
let env: Record<string, string>;
beforeEach(async () => {
  desk = openDesk();
  server = createServer((_, response) => {
    const message = { role: "assistant", content: "18" };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: "k" };
});
afterEach(() => {
  server.close();
  desk.remove();
});

describe("a run that leaves settings out", () => {
  it("says so once for each model and setting, and counts the items at the end", async () => {
    const item = (key: string, model: string): object => {
      const generation_config = { temperature: 0.2, top_k: 5 };
      return { key, request: { model, contents: [{ parts: [{ text: key }] }], generation_config } };
    };
    desk.write("in.jsonl", [item("a", "openai:gpt-4o"), item("b", "openai:o3"), item("c", "openai:o3")]);
    const { code, stderr, stdout } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--json"], {
      env,
    });
    expect(code).toBe(0);
    const lines = stderr.split("\n").map((line) => line.replace(/ {2,}/g, " "));
    expect(lines.filter((line) => line.startsWith("warning"))).toEqual([
      "warning: top_k is left out for openai:gpt-4o, which does not take it (first in line 1)",
      "warning: temperature is left out for openai:o3, which does not take it (first in line 2)",
      "warning: top_k is left out for openai:o3, which does not take it (first in line 2)",
      "warning 3 items with top_k left out",
      "warning 2 items with temperature left out",
    ]);
    expect(JSON.parse(stdout)).toMatchObject({
      warnings: { "dropped:top_k": 3, "dropped:temperature": 2 },
    });
  });
});
