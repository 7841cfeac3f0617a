/**
 * `--format` and `--fields` of the built command, against a provider on loopback.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk, question } from "./command.ts";

/** Bytes as a provider may send them: line ends between tokens, digits that a double rewrites, an escape. */
const SENT =
  '{ "id":"chatcmpl-7","created": 1.50,\r\n  "model":"small-2026","choices":[{"message":{"content":"a\\u0062c"},\n"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}\n';
const KEPT = SENT.replaceAll(/[\r\n]/g, "");

let provider: Server;
let env: Record<string, string>;
beforeAll(async () => {
  provider = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      response.writeHead(body.includes("refused") ? 400 : 200, {
        "content-type": "application/json",
        "x-request-id": "req_1",
      });
      response.end(body.includes("refused") ? '{"error":{"code":"bad"}}' : SENT);
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
  desk = openDesk();
  desk.write("in.jsonl", [
    question("good", "hello", "local:small"),
    question("bad", "refused", "local:small"),
  ]);
});
afterEach(() => desk.remove());

const RUN = ["run", "in.jsonl", "--out", "out.jsonl"];

/** The line of a key, as it is in the file. */
function lineOf(key: string): string {
  const lines = desk.read("out.jsonl").split("\n");
  return lines.find((line) => line.includes(`"${key}"`)) ?? "";
}

describe("perigee run", () => {
  it("--format openai writes OpenAI's batch output with the bytes of the provider", async () => {
    const { code, stderr } = await desk.perigee([...RUN, "--format", "openai"], { env });
    expect([code, stderr]).toEqual([3, expect.stringMatching(/items +2 \(1 answered, 1 with an error\)/)]);
    expect(lineOf("good")).toMatch(/^\{"id":"batch_req_[0-9a-f]+","custom_id":"good","response":\{/);
    expect(lineOf("good")).toContain(`"status_code":200,"request_id":"req_1","body":${KEPT}},"error":null}`);
    expect(JSON.parse(lineOf("bad"))).toMatchObject({
      custom_id: "bad",
      response: null,
      error: { code: "invalid_request", provider_status: 400 },
    });
  });

  it("--format raw writes key and body, and the same command again sends nothing", async () => {
    const words = [...RUN, "--format", "raw", "--json"];
    const first = await desk.perigee(words, { env });
    expect(lineOf("good")).toBe(`{"key":"good","body":${KEPT}}`);
    expect(JSON.parse(lineOf("bad"))).toMatchObject({ key: "bad", body: null, error: { line: 2 } });
    const before = desk.read("out.jsonl");
    const second = await desk.perigee(words, { env });
    expect([first.code, second.code]).toEqual([3, 3]);
    expect(JSON.parse(second.stdout)).toMatchObject({ requests_sent: 0, usage: { input_tokens: 9 } });
    expect(desk.read("out.jsonl")).toBe(before);
  });

  it("--fields keeps the members that it names, and drops all of them for none", async () => {
    await desk.perigee([...RUN, "--fields", "usage,finish_reason"], { env });
    const good: unknown = JSON.parse(lineOf("good"));
    expect(good).toEqual({
      key: "good",
      output: { type: "text", text: "abc" },
      finish_reason: "stop",
      usage: expect.objectContaining({ input_tokens: 9, output_tokens: 3 }),
    });
    expect(Object.keys(JSON.parse(lineOf("bad")))).toEqual(["key", "output", "error", "usage"]);
    await desk.perigee(["run", "in.jsonl", "--out", "bare.jsonl", "--fields", "none"], { env });
    expect(desk.lines("bare.jsonl").find(({ key }) => key === "good")).toEqual({
      key: "good",
      output: { type: "text", text: "abc" },
    });
  });

  it.each([
    ["--format", ["--format", "opnai"], /opnai.*openai/],
    ["--fields", ["--fields", "usage,costs"], /costs.*cost/],
    ["--fields beside a body", ["--fields", "usage", "--format", "raw"], /raw/],
  ])("refuses a wrong value of %s with the right one, and writes nothing", async (_what, words, message) => {
    const { code, stderr, stdout } = await desk.perigee([...RUN, ...words], { env });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
    expect(() => desk.read("out.jsonl")).toThrow("ENOENT");
  });

  it("keeps the format that a run began with, and refuses another one", async () => {
    await desk.perigee([...RUN, "--format", "raw"], { env });
    const before = desk.read("out.jsonl");
    const { code, stderr } = await desk.perigee([...RUN, "--format", "openai"], { env });
    expect([code, desk.read("out.jsonl")]).toEqual([2, before]);
    expect(stderr).toContain("raw");
  });
});
