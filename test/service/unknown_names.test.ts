/** Names that nobody knows, in bodies and queries: refused with the one that was meant. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Call, isFleet, type Service, sendExactly, startService } from "./serving.ts";

const NOW = { model: "echo:small", input: "hello" };
const UNKNOWN = "00000000-0000-4000-8000-000000000000";

let service: Service;
let call: Call;

beforeAll(async () => {
  service = await startService();
  call = service.caller(`Bearer ${(await service.createKey("acme")).key}`);
});
afterAll(() => service.stop());

/** Status, message and place. */
async function refusal(...request: Parameters<Call>): Promise<unknown[]> {
  const { status, text } = await call(...request);
  const { error } = JSON.parse(text) as { error?: { message: string; param: string } };
  return [status, error?.message, error?.param];
}

const posted = (path: string, body: unknown): Parameters<Call> => [
  "POST",
  path,
  { body: JSON.stringify(body), headers: { "content-type": "application/json" } },
];

describe("a name that is not known", () => {
  it("is refused in a body, wherever the body is checked", async () => {
    expect(await refusal(...posted("/v0/infer/", [NOW, { ...NOW, max_token: 5 }]))).toEqual([
      422,
      'item 1: "max_token" is not a known name; did you mean "max_tokens"?',
      "1.max_token",
    ]);
    expect(await refusal(...posted("/v0/infer/", [{ model: "echo:test", imput: "x" }]))).toEqual([
      422,
      'item 0: "imput" is not a known name; did you mean "input"?',
      "0.imput",
    ]);
    expect(await refusal(...posted("/v0/webhooks", { urll: "https://example.com/hook" }))).toEqual([
      422,
      'body: "urll" is not a known name; did you mean "url"?',
      "body",
    ]);
    expect(await refusal(...posted("/v0/infer/", [{ file_id: UNKNOWN, slo: 5 }]))).toEqual([
      422,
      'item 0: "slo" is not a known name; did you mean "sla"?',
      "0.slo",
    ]);
    const batch = { input_file_id: "file-1", endpoint: "/v1/chat/completions", completion_window: "24h" };
    expect(await refusal(...posted("/v1/batches", { ...batch, metdata: {} }))).toEqual([
      422,
      'body: "metdata" is not a known name; did you mean "metadata"?',
      "body",
    ]);
  });

  it("is refused in a query, also where an address takes none", async () => {
    expect(await refusal("GET", "/v0/infer/tasks?limt=5")).toEqual([
      422,
      'querystring: "limt" is not a known name; did you mean "limit"?',
      "querystring",
    ]);
    expect(await refusal("GET", `/v0/infer/object/${UNKNOWN}?view=all`)).toEqual([
      422,
      'querystring: "view" is not known; this address takes no query parameters',
      "view",
    ]);
    const unproxied = isFleet ? [] : ["/metrics"]; // a proxy's callers do not read it
    for (const path of ["/healthz", "/readyz", ...unproxied, "/openapi.json", "/docs"]) {
      expect(await refusal("GET", `${path}?probe=1`)).toEqual([
        422,
        'querystring: "probe" is not known; this address takes no query parameters',
        "probe",
      ]);
    }
    expect((await call("GET", "/?from=mail")).status).toBe(200);
  });
});

describe("a wrong value of a query parameter", () => {
  it.each([
    ["/v0/infer/tasks?limit=%", "limit", "must be a whole number from 1 to 1000"],
    ["/v0/infer/tasks?limit=0", "limit", "must be a whole number from 1 to 1000"],
    ["/v0/infer/tasks?limit=1.5", "limit", "must be a whole number from 1 to 1000"],
    ["/v0/infer/tasks?limit=1&limit=2", "limit", "must be set once"],
    ["/v0/infer/tasks?after=", "after", "must have 1 to 64 characters"],
    ["/v0/files?purpose=fine-tune", "purpose", 'must be one of "batch", "batch_output", "user_data"'],
    ["/v1/files?order=asc", "order", 'must be "desc"'],
    ["/v1/batches?limit=x", "limit", "must be a whole number from 1 to 100"],
    ["/v0/usage?from=yesterday", "from", "must be a day as YYYY-MM-DD"],
    [`/v0/files/output/${UNKNOWN}.jsonl?view=none`, "view", 'must be one of "all", "answers", "errors"'],
  ])("is refused with what it must be: %s", async (path, param, expected) => {
    expect(await refusal("GET", path)).toEqual([422, `${param}: ${expected}`, param]);
  });
});

describe("a request without a valid key", () => {
  it("is refused with the header to send, which differs for executions", async () => {
    const message =
      'a valid API key is needed: send "Authorization: Bearer <key>"; for satellites, executions, clusters and secrets "Authorization: <key>"';
    const { key } = await service.createKey("refused");
    const refused = async (path: string, authorization?: string): Promise<unknown> =>
      (await service.caller(authorization)("GET", path)).body;
    for (const answer of [
      await refused("/v0/infer/tasks"),
      await refused("/v0/infer/tasks", key),
      await refused("/v1/executions", `Bearer ${key}`),
    ])
      expect(answer).toMatchObject({ error: { code: "unauthenticated", message } });
    const wrong = await service.caller(key)("GET", "/v1/executions?satellite=one");
    expect(wrong.body).toMatchObject({ error: { message: "satellite: must be <namespace>/<name>" } });
  });
});

describe("a body that an address does not read", () => {
  it("is refused by GET, whether its length is known or not", async () => {
    const authorization = `Bearer ${(await service.createKey("bodies")).key}`;
    const sent = async (headers: Record<string, string>, body: string): Promise<unknown> => {
      const { status, text } = await sendExactly(service, {
        method: "GET",
        path: "/v0/infer/tasks",
        headers: { authorization, "content-type": "application/json", ...headers },
        body,
      });
      const { error } = JSON.parse(text) as { error?: { message: string } };
      return [status, error?.message];
    };
    const refused = [422, "body: this address takes no body; leave it out"];
    expect(await sent({ "content-length": "11" }, '{"limit":5}')).toEqual(refused);
    expect(await sent({ "transfer-encoding": "chunked" }, '{"limit":5}')).toEqual(refused);
    expect(await sent({ "content-length": "2" }, "{}")).toEqual([200, undefined]);
  });
});

describe("settings of an item", () => {
  it("are those of a line, and one that is not known is refused before anything is sent", async () => {
    const cut = { ...NOW, input: "hello there", max_tokens: 1, generation_config: { temperature: 0 } };
    const { status, text } = await call(...posted("/v0/infer/", [cut]));
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({
      objects: [{ status: "completed", output: { type: "text", text: "hell" }, finish_reason: "length" }],
    });
    const wrong = { ...NOW, generation_config: { temprature: 0 } };
    expect(await refusal(...posted("/v0/infer/", [cut, wrong]))).toEqual([
      422,
      'item 1: "temprature" is not a known member of generation_config; did you mean "temperature"?',
      "1.generation_config",
    ]);
    expect((await refusal(...posted("/v0/infer/", [{ ...NOW, model: "opnai:gpt-4o" }])))[2]).toBe("0.model");
  });
});
