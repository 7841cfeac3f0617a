/**
 * The part of the conformance test that is about satellites: what is sent to them, right and wrong.
 */
import { expect } from "vitest";
import type { Conformance } from "./conformance_files.ts";
import { hostShout, SHOUTED, shoutAt } from "./hosted_satellite.ts";

const RUN = "/v1/satellites/{project}/{satellite}";
const EXECUTION = `${RUN}/{execution_id}`;
const SATELLITE = { project: "perigee", satellite: "deepseek-r1-distrill-llama-70b" };
const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const request = { input: { prompt: "x" }, sla: "1h" };

/** Answers every documented status of secrets. */
export async function callSecrets({ check }: Conformance): Promise<void> {
  const [path, name] = ["/v1/secrets/{name}", { name: "token" }];
  expect((await check(path, "PUT", name, { body: { value: "hidden" } })).status).toBe(200);
  expect((await check(path, "PUT", { name: "Token" }, { body: { value: "hidden" } })).status).toBe(422);
  expect((await check("/v1/secrets", "GET", {})).text).not.toContain("hidden");
  expect((await check(path, "DELETE", name)).status).toBe(200);
}

export async function callExecutions({ check, whole }: Conformance): Promise<void> {
  const keyed = { headers: { "idempotency-key": "execution" } };
  const made = await check(RUN, "POST", SATELLITE, { body: request, ...keyed });
  expect(made.status).toBe(200);
  expect((await check(RUN, "POST", SATELLITE, { body: { ...request, sla: "2h" }, ...keyed })).status).toBe(
    409,
  );
  expect((await check(RUN, "POST", SATELLITE, { body: { ...request, sla: "soon" } })).status).toBe(422);
  expect((await check(RUN, "POST", SATELLITE, { body: { ...request, input: { prompt: 1 } } })).status).toBe(
    422,
  );
  const { execution_id } = JSON.parse(made.text) as { execution_id: string };
  const values = { ...SATELLITE, execution_id };
  const path = EXECUTION.replace(/\{(\w+)\}/g, (_match, name: keyof typeof values) => values[name]);
  while (JSON.parse((await whole.call("GET", path)).text).status === "pending");
  const tag = (await check(EXECUTION, "GET", values)).headers.get("etag") ?? "";
  expect((await check(EXECUTION, "GET", values, { headers: { "if-none-match": tag } })).status).toBe(304);
  await check("/v1/executions", "GET", {}, { query: "?limit=1" });
  expect((await check("/v1/executions", "GET", {}, { query: `?after=${UNKNOWN}` })).status).toBe(404);
  expect((await check(`${EXECUTION}/cancel`, "POST", values)).status).toBe(200);
}

export async function callClusters({ check }: Conformance): Promise<void> {
  const uses = `satellite/${SATELLITE.project}/${SATELLITE.satellite}`;
  const member = { name: "One", uses, identifier: "one", input: { prompt: "x" } };
  const declaration = { sla: "1h", cluster: { satellites: [member] } };
  const keyed = { headers: { "idempotency-key": "cluster" } };
  const made = await check("/v1/clusters", "POST", {}, { body: { declaration }, ...keyed });
  expect(made.status).toBe(200);
  const other = { ...declaration, sla: "2h" };
  expect((await check("/v1/clusters", "POST", {}, { body: { declaration: other }, ...keyed })).status).toBe(
    409,
  );
  await check("/v1/clusters/check", "POST", {}, { body: { declaration } });
  const { cluster_id } = JSON.parse(made.text) as { cluster_id: string };
  expect((await check("/v1/clusters/{cluster_id}/cancel", "POST", { cluster_id })).status).toBe(200);
  const tag = (await check("/v1/clusters/{cluster_id}", "GET", { cluster_id })).headers.get("etag") ?? "";
  const tagged = { headers: { "if-none-match": tag } };
  expect((await check("/v1/clusters/{cluster_id}", "GET", { cluster_id }, tagged)).status).toBe(304);
  await check("/v1/clusters", "GET", {}, { query: "?limit=1" });
  expect((await check("/v1/clusters", "GET", {}, { query: `?after=${UNKNOWN}` })).status).toBe(404);
}

export async function callCatalogue({ check, whole }: Conformance): Promise<void> {
  const status = async (method: string, call: Parameters<typeof check>[3], satellite = "shout", after = "") =>
    (await check(RUN + after, method, { project: "own", satellite }, call)).status;
  const url = await hostShout(whole.call, [{ project: "own", key: "own" }]);
  const configured = { kind: "configured", base: "satellite/own/shout", config: { mark: "?" } };
  expect(await status("PUT", { body: shoutAt(url) })).toBe(200);
  expect(await status("PUT", { body: configured }, "ask")).toBe(200);
  expect(await status("PUT", { body: configured })).toBe(409);
  expect(await status("PUT", { body: { ...configured, config: { mark: 1 } } }, "ask")).toBe(422);
  expect(await status("POST", { body: SHOUTED }, "ask")).toBe(200);
  for (const satellite of ["shout", "ask", "brought"]) expect(await status("GET", {}, satellite)).toBe(200);
  const key = "operator";
  for (const action of ["/verify", "/approve"]) {
    expect(await status("POST", { key }, "ask", action)).toBe(409);
    expect(await status("POST", { key }, "shout", action)).toBe(200);
  }
  for (const action of ["/disable", "/enable"])
    expect(await status("POST", { key }, "ask", action)).toBe(200);
  const list = async (path: string, query: string, given = "own") =>
    (await check(path, "GET", { project: "own" }, { query, key: given })).status;
  for (const path of ["/v1/satellites", "/v1/satellites/{project}"]) {
    expect(await list(path, "?limit=1")).toBe(200);
    expect(await list(path, "?after=own/ask")).toBe(200);
    expect(await list(path, "?after=own/none")).toBe(404);
    expect(await list(path, "?limit=0")).toBe(422);
    expect(await list(path, "?all=true")).toBe(403);
    expect(await list(path, "?all=true", key)).toBe(200);
  }
  expect(await status("DELETE", {}, "brought")).toBe(409);
  expect(await status("DELETE", {}, "ask")).toBe(200);
}
