/** What perigee doctor says of providers that work, refuse, limit, or are not there. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk } from "../command.ts";

let desk: Desk;
let server: Server;
let base: string;
let asked: string[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  desk = openDesk();
  asked = [];
  answer = (_, response) =>
    json(response, 200, { data: [{ id: "gpt-4o-mini" }, { id: "text-embedding-3-small" }] });
  server = createServer((request, response) => {
    asked.push(
      `${request.method} ${request.url} ${request.headers.authorization ?? request.headers["x-api-key"] ?? ""}`,
    );
    request.resume().on("end", () => answer(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
  desk.remove();
});

function json(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

interface Found {
  readonly status: string;
  readonly checks: readonly {
    readonly name: string;
    readonly state: string;
    readonly text: string;
    readonly todo?: string;
    readonly [fact: string]: unknown;
  }[];
}

async function doctor(words: readonly string[] = [], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await desk.perigee(["doctor", ...words, "--json"], { env });
  const found = JSON.parse(stdout) as Found;
  return {
    code,
    found,
    stdout,
    stderr,
    of: (name: string) => found.checks.find((check) => check.name === name),
  };
}

const openai = (): Record<string, string> => ({
  OPENAI_API_KEY: "sk-secret-1",
  OPENAI_BASE_URL: `${base}/v1`,
});

describe("perigee doctor", () => {
  it("asks for the list of models with the key, names its variable, and shows no key", async () => {
    const { code, of, stdout } = await doctor([], openai());
    expect(code).toBe(0);
    expect(asked).toEqual(["GET /v1/models Bearer sk-secret-1"]);
    expect(of("openai")).toMatchObject({ state: "ok", key_from: "OPENAI_API_KEY", status: 200, models: 2 });
    expect(of("openai")?.text).toMatch(
      /^it answers, and lists 2 models \(http:.*, \d+ ms, key of OPENAI_API_KEY\)$/,
    );
    expect(stdout).not.toContain("sk-secret");
  });

  it("knows the lists of Anthropic and Gemini", async () => {
    answer = ({ url = "" }, response) =>
      json(
        response,
        200,
        url.includes("beta")
          ? { models: [{ name: "models/gemini-2.5-flash" }] }
          : { data: [{ id: "claude-haiku-4-5" }] },
      );
    const { of } = await doctor([], {
      ANTHROPIC_API_KEY: "a",
      ANTHROPIC_BASE_URL: base,
      GEMINI_API_KEY: "g",
      GEMINI_BASE_URL: base,
    });
    expect(asked.map((line) => line.split(" ")[1])).toEqual(
      expect.arrayContaining(["/v1/models", "/v1beta/models"]),
    );
    expect([of("anthropic"), of("gemini")]).toMatchObject([
      { state: "ok", models: 1 },
      { state: "ok", models: 1 },
    ]);
  });

  it.each([
    [401, "fails", "it refuses the key (401)", "set a key that it accepts in OPENAI_API_KEY"],
    [
      404,
      "note",
      "it answers, and has no list of models (404)",
      "check the base URL, or ask a model: --send --model <provider>:<name>",
    ],
    [429, "note", "it limits the rate now (429)", "wait a minute, or check the quota"],
    [503, "fails", "it has a fault (503)", "check its status page, and try later"],
  ])("says what a list refused with %d means, and what to do", async (status, state, text, todo) => {
    answer = (_, response) => json(response, status, {});
    const { code, of, found } = await doctor([], openai());
    expect([code, found.status]).toEqual(state === "fails" ? [2, "fails"] : [0, "ok"]);
    expect(of("openai")).toMatchObject({ state, text: expect.stringContaining(text) as string, todo });
  });

  it("says that a provider cannot be reached, and that one has no key", async () => {
    await new Promise((resolve) => server.close(resolve));
    desk.write("c.json", [{ providers: { groq: {} } }]);
    const { code, of } = await doctor(["--config", "c.json"], openai());
    expect(code).toBe(2);
    expect(of("openai")?.text).toMatch(/^http:.* cannot be reached: .*ECONNREFUSED/);
    expect(of("groq")).toMatchObject({ state: "fails", text: "it has no key", todo: "set GROQ_API_KEY" });
    server.listen(0);
  });

  it("tells limits in headers, and a clock that is wrong", async () => {
    answer = (_, response) =>
      json(
        response,
        200,
        { data: [{ id: "m" }] },
        {
          "x-ratelimit-limit-requests": "500",
          "x-ratelimit-limit-tokens": "200000",
          date: new Date(Date.now() + 120_000).toUTCString(),
        },
      );
    const text = (await doctor([], openai())).of("openai")?.text;
    expect(text).toContain("; limits: 500 requests, 200,000 tokens a minute; ");
    expect(text).toMatch(/this machine's clock is 1(19|20|21) s behind it: set it \(NTP\)$/);
  });

  it("with --send asks the cheapest model that chats for one token, and shows what that cost", async () => {
    answer = ({ method }, response) => {
      if (method === "GET")
        json(response, 200, {
          data: ["text-embedding-3-small", "gpt-4o", "gpt-4o-mini"].map((id) => ({ id })),
        });
      else
        json(response, 200, {
          model: "gpt-4o-mini",
          choices: [{ message: { content: "Hi" }, finish_reason: "length" }],
          usage: { prompt_tokens: 8, completion_tokens: 1 },
        });
    };
    const { code, of } = await doctor(["--send"], openai());
    expect(code).toBe(0);
    expect(of("openai (sent)")).toMatchObject({
      state: "ok",
      model: "openai:gpt-4o-mini",
      billed_usd: 0.0000018,
    });
    expect(asked.filter((line) => line.startsWith("POST"))).toHaveLength(1);
  });

  it("fails with what --send was refused for", async () => {
    answer = ({ method }, response) =>
      method === "GET"
        ? json(response, 200, { data: [{ id: "m" }] })
        : json(response, 404, { error: { code: "model_not_found", message: "no such model" } });
    const { code, of } = await doctor(["--send", "--model", "openai:gpt-9"], openai());
    expect(code).toBe(2);
    expect(of("openai (sent)")).toMatchObject({
      state: "fails",
      model: "openai:gpt-9",
      code: "model_not_found",
    });
  });

  it("says what to set where nothing is configured, checks only those that are named, and knows near names", async () => {
    expect((await doctor()).of("providers")).toMatchObject({ state: "note" });
    expect((await doctor(["echo"])).found.checks.map(({ name }) => name)).toEqual([
      "node",
      "config",
      "disk",
      "echo",
    ]);
    expect((await desk.perigee(["doctor", "opnai"])).stderr).toContain(
      'provider "opnai" is not configured; did you mean "openai"?',
    );
    expect((await desk.perigee(["doctor", "mybox"])).stderr).toContain("set PERIGEE_PROVIDER_MYBOX_BASE_URL");
  });

  it("uses the configuration and the .env of the folder, and warns of one that others can read", async () => {
    desk.write("perigee.config.yaml", ["providers:", "  box:", `    baseUrl: ${base}/v1`]);
    desk.write(".env", ["PERIGEE_PROVIDER_BOX_KEY=sk-box"]);
    const { of, stderr } = await doctor();
    expect(of("config")).toMatchObject({ config_file: "perigee.config.yaml" });
    expect(of("env")).toMatchObject({ state: "note", todo: "chmod 600 .env" });
    expect(of("box")).toMatchObject({ state: "ok", key_from: "PERIGEE_PROVIDER_BOX_KEY" });
    expect(asked).toEqual(["GET /v1/models Bearer sk-box"]);
    expect(stderr).toBe(
      "perigee: using perigee.config.yaml, and PERIGEE_PROVIDER_BOX_KEY of .env (--no-config uses neither)\n",
    );
  });
});
