/**
 * Calls before a service that a test scripts: what is sent, when it is sent again, and what ends a call.
 */
import { generateText } from "ai";
import { describe, expect, it } from "vitest";
import { createPerigee } from "../../src/ai/index.ts";

const object = (status: string, more: object = {}) => ({
  status: "completed",
  task_id: "t1",
  objects: [{ object_id: "o1", status, usage: { input_tokens: 3, price_factor: 1 }, error: null, ...more }],
});
const ANSWERED = object("completed", { output: { type: "text", text: "yes" }, finish_reason: "stop" });
const FAILED = object("failed", { error: { code: "filtered", message: "no", provider_status: 400 } });

let scriptedServices = 0;

/** A provider before a service that answers in this order, and the requests that it received. */
function scripted(answers: readonly (Response | Error)[]) {
  scriptedServices += 1;
  const requests: { readonly path: string; readonly key: string | null; readonly body: unknown }[] = [];
  const left = [...answers];
  const fetch: typeof globalThis.fetch = async (address, init = {}) => {
    const { pathname } = new URL(String(address));
    const body = init.body === undefined ? undefined : (JSON.parse(String(init.body)) as unknown);
    requests.push({ path: pathname, key: new Headers(init.headers).get("idempotency-key"), body });
    const answer = left.shift() ?? json(ANSWERED);
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const url = `http://service-${scriptedServices}.test/base/`; // identical calls are counted for each service
  return { requests, perigee: createPerigee({ url, apiKey: "k", fetch }) };
}

const json = (body: object, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers });
const refusal = (status: number, code: string): Response => json({ error: { code, message: "no" } }, status);

describe("a call before a service", () => {
  it("posts one item under a key, again under the same one after a lost connection and a 503", async () => {
    const { requests, perigee } = scripted([new Error("reset"), refusal(503, "closed"), json(ANSWERED)]);
    expect((await generateText({ model: perigee("openai:m"), prompt: "?" })).text).toBe("yes");
    expect(requests).toHaveLength(3);
    expect(new Set(requests.map(({ key }) => key)).size).toBe(1);
    expect(requests[2]).toEqual({
      path: "/base/v0/infer/",
      key: expect.stringMatching(/^ai:[0-9a-f]{64}$/),
      body: [{ model: "openai:m", messages: [{ role: "user", content: "?" }] }],
    });
  });

  it("waits while the first request of its key is not answered", async () => {
    const { requests, perigee } = scripted([refusal(409, "idempotency_in_progress"), json(ANSWERED)]);
    expect((await generateText({ model: perigee("openai:m"), prompt: "?" })).text).toBe("yes");
    expect(requests).toHaveLength(2);
  });

  it("polls an open task, and runs one again that was found without an answer", async () => {
    const { requests, perigee } = scripted([
      json(FAILED, 200, { "idempotent-replayed": "true" }),
      json(object("submitted")),
      json(ANSWERED),
    ]);
    expect((await generateText({ model: perigee("openai:m", { sla: 60 }), prompt: "?" })).text).toBe("yes");
    expect(requests.map(({ path }) => path.slice("/base/v0/infer/".length))).toEqual([
      "",
      "task/t1/retry",
      "task/t1",
    ]);
    expect(requests[1]?.body).toEqual({ codes: ["filtered"] });
  });

  it.each([
    ["what the service refuses", refusal(422, "invalid_request"), "invalid_request", 422],
    ["an sla that is too short", refusal(429, "sla_infeasible"), "sla_infeasible", 429],
    ["an item that failed", json(FAILED), "filtered", 400],
  ])("is not repeated by anybody at %s", async (_what, answer, code, statusCode) => {
    const { requests, perigee } = scripted([answer]);
    await expect(
      generateText({ model: perigee("openai:m"), prompt: "?", maxRetries: 3 }),
    ).rejects.toMatchObject({ code, statusCode, isRetryable: false });
    expect(requests.filter(({ path }) => path === "/base/v0/infer/")).toHaveLength(1);
  });

  it("says which call has the key of another one, by the first words of its prompt", async () => {
    const { perigee } = scripted([refusal(422, "idempotency_mismatch")]);
    const providerOptions = { perigee: { key: "order 4711" } };
    await expect(
      generateText({ model: perigee("openai:m"), system: "Be brief.", prompt: "What?", providerOptions }),
    ).rejects.toMatchObject({
      ...{ code: "idempotency_mismatch", statusCode: 422 },
      message:
        'the call "What?" has the key "order 4711", under which another call was made before; use another key',
    });
  });

  it.each([
    [
      "key_missing",
      null,
      "set the provider's key (its environment variable, or key in providers) and restart the service",
    ],
    ["outage", "2026-11-27T18:00:00.000Z", "make the call again later, or give it an sla: then it waits"],
  ])("says what to do when it is held by %s, and cancels its task", async (reason, next_try, words) => {
    const held = { reason, since: "2026-11-27T17:00:00.000Z", next_try, provider: "openai" };
    const { requests, perigee } = scripted([json(object("submitted", { held })), json(ANSWERED)]);
    await expect(generateText({ model: perigee("openai:m"), prompt: "?" })).rejects.toMatchObject({
      message: `the call is held by the service (${reason}, provider "openai"): ${words}`,
    });
    expect(requests.at(-1)?.path).toBe("/base/v0/infer/task/t1/cancel");
  });

  it("cancels its task when it is aborted", async () => {
    const controller = new AbortController();
    const { requests, perigee } = scripted([json(object("submitted")), json(object("submitted"))]);
    const call = perigee("openai:m", { sla: 60 }).doGenerate({
      prompt: [{ role: "user", content: [{ type: "text", text: "?" }] }],
      abortSignal: controller.signal,
    });
    await new Promise((resolve) => setImmediate(resolve));
    controller.abort();
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    expect(requests.at(-1)?.path).toBe("/base/v0/infer/task/t1/cancel");
  });
});
