/**
 * Executions over HTTP: what is refused, who sees what, repeats, cancels and lists.
 */
import { describe, expect, it } from "vitest";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { openExecutionService } from "./execution_service.ts";

const noted: AuditEvent[] = [];
const service = await openExecutionService({ audit: { note: (event) => noted.push(event) } });
const VENDOR = "/v1/satellites/perigee/echo";
const OWN = "/v1/satellites/one/own";
const body = { input: { prompt: "hello" }, sla: "1h" };

async function made(path = VENDOR, prompt = "hello"): Promise<string> {
  const { json } = await service.call("POST", path, { body: { ...body, input: { prompt } } });
  return json.execution_id as string;
}

describe("a request", () => {
  it("names every field that the satellite's schemas refuse", async () => {
    const wrong = { input: { prompt: 1 }, config: { max_tokens: 0, temperature: "hot" }, sla: "1h" };
    const { status, json } = await service.call("POST", VENDOR, { body: wrong });
    expect(status).toBe(422);
    expect(json.error).toMatchObject({ code: "invalid_request", param: "input.prompt" });
    expect(json.error.issues.map(({ path }: { path: string }) => path)).toEqual([
      "input.prompt",
      "config.max_tokens",
      "config.temperature",
    ]);
  });

  it.each([
    ["an unknown field", { ...body, status: "completed" }, "body"],
    ["an input that is not an object", { ...body, input: [] }, "input"],
    ["a config that is not an object", { ...body, config: "x" }, "config"],
    ["no object", [], "body"],
    ["nothing", "null", "body"],
  ])("is refused with %s", async (_what, wrong, param) => {
    const { status, json } = await service.call("POST", VENDOR, { body: wrong });
    expect([status, json.error.code, json.error.param]).toEqual([422, "invalid_request", param]);
  });

  it("is too large above 1 MiB", async () => {
    const large = { ...body, input: { prompt: "x".repeat(1 << 20) } };
    expect((await service.call("POST", VENDOR, { body: large })).status).toBe(413);
  });

  it("needs no config and no sla", async () => {
    const { status, json } = await service.call("POST", VENDOR, { body: { input: { prompt: "x" } } });
    expect([status, json.sla]).toEqual([200, "24h"]);
  });

  it("may fill texts with secrets that the schema would refuse now", async () => {
    const config = { temperature: "secret://heat" };
    const { status, json } = await service.call("POST", VENDOR, { body: { ...body, config } });
    expect(status).toBe(200);
    const done = await service.finished(`${VENDOR}/${json.execution_id}`);
    expect(done.json).toMatchObject({ status: "failed", error: { code: "secret_missing" } });
  });

  it("answers 404 alike for a satellite that does not exist, is another's, or has an invalid name", async () => {
    for (const path of ["perigee/none", "two/own", "one/none", "ONE/own", "one/o%2fn", "one/own%00"]) {
      const { status, json } = await service.call("POST", `/v1/satellites/${path}/`, { body });
      expect([path, status, json.error.message]).toEqual([
        path,
        404,
        "nothing with this id is in your project",
      ]);
    }
  });

  it("is made once for an Idempotency-Key, and refused with another body", async () => {
    const headers = { "idempotency-key": "once" };
    const first = await service.call("POST", VENDOR, { body, headers });
    const again = await service.call("POST", `${VENDOR}/`, { body, headers });
    expect(again.json.execution_id).toBe(first.json.execution_id);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const other = await service.call("POST", VENDOR, { body: { ...body, sla: "2h" }, headers });
    expect([other.status, other.json.error.code]).toEqual([409, "idempotency_mismatch"]);
    const elsewhere = await service.call("POST", OWN, { body, headers });
    expect(elsewhere.json.error.code).toBe("idempotency_mismatch");
  });
});

describe("an execution", () => {
  it("is found only under its own satellite and by its own project", async () => {
    const id = await made();
    const unknown = "00000000-0000-4000-8000-000000000000";
    expect((await service.call("GET", `${VENDOR}/${id.toUpperCase()}`)).status).toBe(200);
    const texts = new Set<string>();
    for (const [path, authorization] of [
      [`${VENDOR}/${id}`, "other"],
      [`${OWN}/${id}`, "beta"],
      [`${VENDOR}/${unknown}`, "beta"],
      [`${VENDOR}/x`, "beta"],
      [`${VENDOR}/${id}/cancel`, "other"],
      [`${OWN}/${id}/cancel`, "beta"],
    ] as const) {
      const answer = await service.call(path.endsWith("cancel") ? "POST" : "GET", path, { authorization });
      expect(answer.status).toBe(404);
      texts.add(JSON.stringify(answer.json.error));
    }
    expect(texts.size).toBe(1);
  });

  it("is not sent again to who has it already", async () => {
    const path = `${VENDOR}/${await made()}`;
    const { headers } = await service.finished(path);
    const etag = headers.get("etag") ?? "";
    expect(headers.get("cache-control")).toBe("private, no-cache");
    const again = await service.call("GET", path, { headers: { "if-none-match": etag } });
    expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", etag]);
  });

  it("is cancelled, once and for all, and not any more when it is final", async () => {
    const id = await made(VENDOR, "wait");
    const cancelled = await service.call("POST", `${VENDOR}/${id}/cancel/`);
    expect(cancelled.json).toMatchObject({ status: "cancelled", output: null, error: { code: "cancelled" } });
    expect((await service.call("POST", `${VENDOR}/${id}/cancel`)).json).toEqual(cancelled.json);
    const done = `${VENDOR}/${await made()}`;
    const { json } = await service.finished(done);
    expect((await service.call("POST", `${done}/cancel`)).json).toEqual(json);
  });

  it("needs a key that may run satellites to be made or cancelled, and one that may read to be seen", async () => {
    const path = `${VENDOR}/${await made()}`;
    const reader = { authorization: "reader" };
    expect((await service.call("POST", VENDOR, { ...reader, body })).status).toBe(403);
    expect((await service.call("POST", `${path}/cancel`, reader)).status).toBe(403);
    expect((await service.call("GET", path, reader)).status).toBe(200);
    expect((await service.call("GET", "/v1/executions/", reader)).status).toBe(200);
  });
});

describe("the list of executions", () => {
  it("has those of the project in pages, newest first, of one satellite on request", async () => {
    const vendor = await made();
    const own = await made(OWN);
    const first = await service.call("GET", "/v1/executions/?limit=1");
    expect(first.json).toMatchObject({ executions: [{ execution_id: own }], has_more: true, last_id: own });
    const second = await service.call("GET", `/v1/executions?limit=1&after=${own}`);
    expect(second.json.executions[0].execution_id).toBe(vendor);
    const only = await service.call("GET", "/v1/executions?satellite=one/own&limit=1000");
    expect(new Set(only.json.executions.map((one: { satellite: string }) => one.satellite))).toEqual(
      new Set(["satellite/one/own"]),
    );
    expect(only.json.has_more).toBe(false);
    const other = await service.call("GET", "/v1/executions", { authorization: "other" });
    expect(other.json).toEqual({ executions: [], has_more: false, last_id: null });
  });

  it.each(["limit=0", "limit=1001", "satellite=one", "satellite=../x", "order=asc"])(
    "refuses ?%s",
    async (query) => {
      expect((await service.call("GET", `/v1/executions?${query}`)).status).toBe(422);
    },
  );

  it("answers 404 when `after` is not the project's, or of another satellite", async () => {
    const vendor = await made();
    for (const [query, authorization] of [
      [`after=${vendor}`, "other"],
      [`after=${vendor}&satellite=one/own`, "beta"],
      ["after=x", "beta"],
    ] as const)
      expect((await service.call("GET", `/v1/executions?${query}`, { authorization })).status).toBe(404);
  });
});

it("runs and cancels are in the audit log, repeats and refusals are not", async () => {
  noted.length = 0;
  const headers = { "idempotency-key": "audited" };
  const { json } = await service.call("POST", VENDOR, { body, headers });
  await service.call("POST", VENDOR, { body, headers });
  await service.call("POST", VENDOR, { body: { ...body, sla: "x" } });
  await service.call("POST", `${VENDOR}/${json.execution_id}/cancel`);
  const who = { project: "one", keyId: "one-key", executionId: json.execution_id };
  expect(noted).toEqual([
    { kind: "satellite.run", ...who },
    { kind: "execution.cancelled", ...who },
  ]);
});
