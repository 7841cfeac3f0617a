/**
 * The satellite half of the interface, only from its document: the fields of sections 2.7 and 2.8, the transitions of 3.2,
 * the endpoints 4.6 and 4.7, and the key of section 5.
 */
import { describe, expect, it } from "vitest";
import { openExecutionService } from "./execution_service.ts";

const service = await openExecutionService();
const PATH = "/v1/satellites/perigee/echo";
const REQUEST = {
  input: { prompt: "Explain tides." },
  config: { max_tokens: 100, temperature: 0.5 },
  sla: "24h",
};
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe("4.6 POST /v1/satellites/{project_name}/{satellite_name}/", () => {
  it.each([`${PATH}/`, PATH])("answers an execution in state pending: %s", async (path) => {
    const before = Date.now();
    const { status, headers, json } = await service.call("POST", path, { body: REQUEST });
    expect(status).toBe(200);
    expect(headers.get("content-type")).toMatch(/^application\/json/);
    expect(json.execution_id).toMatch(UUID);
    expect(json).toMatchObject({ sla: "24h", status: "pending", output: null, error: null, retries: 0 });
    for (const name of ["created_at", "updated_at"]) {
      expect(json[name]).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
      expect(Date.parse(json[name])).toBeGreaterThanOrEqual(before - 1);
    }
  });

  it.each(["90s", "30m", "24h", "7d", "1s", "30d"])("takes the duration %s", async (sla) => {
    const { status, json } = await service.call("POST", `${PATH}/`, { body: { ...REQUEST, sla } });
    expect([status, json.sla]).toEqual([200, sla]);
  });

  it.each(["", "24", "h", "0s", "1.5h", "24 h", "24H", "-1h", "31d", "100000s", "1h30m", 24, null])(
    "refuses %j as a duration, naming the field",
    async (sla) => {
      const { status, json } = await service.call("POST", `${PATH}/`, { body: { ...REQUEST, sla } });
      expect([status, json.error.param]).toEqual([422, "sla"]);
    },
  );
});

describe("4.7 GET /v1/satellites/{project_name}/{satellite_name}/{execution_id}/", () => {
  it("answers the current status and output, with and without a slash at the end", async () => {
    const { json: pending } = await service.call("POST", `${PATH}/`, {
      body: { ...REQUEST, input: { prompt: "wait" } },
    });
    const one = `${PATH}/${pending.execution_id}`;
    for (const path of [one, `${one}/`])
      expect(
        (await service.call("GET", path, { headers: { "content-type": "application/json" } })).json,
      ).toMatchObject({
        execution_id: pending.execution_id,
        status: "pending",
        output: null,
        error: null,
        retries: 0,
      });
    await new Promise((resolve) => setTimeout(resolve, 20));
    service.release();
    const { status, json } = await service.finished(`${one}/`);
    expect(status).toBe(200);
    expect(json).toMatchObject({
      execution_id: pending.execution_id,
      sla: "24h",
      status: "completed",
      created_at: pending.created_at,
      output: { response: "wait" },
      error: null,
      retries: 0,
    });
    expect(Date.parse(json.updated_at)).toBeGreaterThan(Date.parse(pending.updated_at));
    expect((await service.call("GET", one)).json).toEqual(json);
  });

  it("answers an error when it has failed, and no output", async () => {
    const { json } = await service.call("POST", PATH, { body: { ...REQUEST, input: { prompt: "fail" } } });
    expect((await service.finished(`${PATH}/${json.execution_id}`)).json).toMatchObject({
      status: "failed",
      output: null,
      error: { code: "echo_failed", message: "it was asked to", retryable: false },
    });
  });
});

describe("5 the key is the only text in Authorization", () => {
  it.each(["Bearer beta", "bearer beta", "Basic beta", "", "unknown", "beta beta"])(
    "refuses %j alike on both endpoints",
    async (authorization) => {
      const posted = await service.call("POST", `${PATH}/`, { authorization, body: REQUEST });
      const got = await service.call("GET", `${PATH}/00000000-0000-4000-8000-000000000000/`, {
        authorization,
      });
      for (const { status, json } of [posted, got]) {
        expect(status).toBe(401);
        expect(json.error).toMatchObject({ code: "unauthenticated", type: "authentication_error" });
        expect(json.error.message).toBe(
          'a valid API key is needed: send "Authorization: Bearer <key>"; for satellites, executions, clusters and secrets "Authorization: <key>"',
        );
      }
    },
  );

  it("limits vendor satellites to keys with the beta flag, and others to their namespace", async () => {
    const vendor = await service.call("POST", `${PATH}/`, { authorization: "plain", body: REQUEST });
    expect([vendor.status, vendor.json.error.code]).toEqual([403, "forbidden"]);
    const own = "/v1/satellites/one/own/";
    expect((await service.call("POST", own, { authorization: "plain", body: REQUEST })).status).toBe(200);
    expect((await service.call("POST", own, { authorization: "other", body: REQUEST })).status).toBe(404);
  });
});
