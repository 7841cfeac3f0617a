/**
 * Calls of the conformance test for files and OpenAI's interface: each operation, well formed and not.
 */
import { once } from "node:events";
import { request } from "node:http";
import { expect } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { formOf, type Whole, type WholeAnswer, type WholeCall } from "./whole.ts";

export interface Conformance {
  /** Sends, and compares with the description. */
  check(
    path: string,
    method: string,
    values: Record<string, string>,
    call?: WholeCall & { query?: string },
  ): Promise<WholeAnswer>;
  readonly whole: Whole;
  readonly seen: Set<string>;
}

/** A range after the end of all that the tests download. */
export const refusedRange: WholeCall = { headers: { range: "bytes=99999999-" } };
/** For any tag, the caller has it. */
export const known: WholeCall = { headers: { "if-none-match": "*" } };

/** Enough of them to be at work for a while. */
const manyLines: readonly object[] = Array.from({ length: 5_000 }, (_, index) => lineOf(`k${index}`));

const UNKNOWN = "0".repeat(32);

export async function callOpenai(conformance: Conformance): Promise<void> {
  const { check } = conformance;
  const upload = async (form: FormData): Promise<WholeAnswer> =>
    check("/v1/files", "POST", {}, { body: form });
  const uploaded = await upload(withPurpose([lineOf("a")]));
  expect(uploaded.status).toBe(200);
  const { id } = JSON.parse(uploaded.text) as { id: string };
  expect((await upload(formOf([lineOf("a")]))).status).toBe(400);
  expect((await upload(withPurpose([lineOf("a"), lineOf("a")]))).status).toBe(422);
  await check("/v1/files", "POST", {}, { body: "x", headers: { "content-type": "text/plain" } });
  await refuseLength(conformance);
  await check("/v1/files", "GET", {}, { query: "?limit=1&purpose=batch" });
  await check("/v1/files", "GET", {}, { query: `?after=file-${UNKNOWN}` });
  await check("/v1/files/{id}", "GET", { id });
  await check("/v1/files/{id}/content", "GET", { id });
  await check("/v1/files/{id}/content", "GET", { id }, { headers: { range: "bytes=0-3" } });
  await check("/v1/files/{id}/content", "GET", { id }, refusedRange);
  expect((await check("/v1/files/{id}/content", "GET", { id }, known)).status).toBe(304);
  expect((await check("/v1/files/{id}", "DELETE", { id })).status).toBe(200);
  await callBatches(conformance, JSON.parse((await upload(withPurpose(manyLines))).text).id);
}

async function callBatches({ check, whole }: Conformance, input_file_id: string): Promise<void> {
  const terms = { endpoint: "/v1/chat/completions", completion_window: "24h" };
  const body = { ...terms, input_file_id, metadata: { run: "1" } };
  await whole.refused(new PerigeeError("budget_exceeded", "no money left"), async () =>
    expect((await check("/v1/batches", "POST", {}, { body })).status).toBe(402),
  );
  const keyed = { headers: { "idempotency-key": "batch" } };
  const created = await check("/v1/batches", "POST", {}, { body, ...keyed });
  const other = { ...body, metadata: { other: "yes" } };
  expect((await check("/v1/batches", "POST", {}, { body: other, ...keyed })).status).toBe(409);
  await whole.refused(new PerigeeError("idempotency_in_progress", "not answered yet"), async () =>
    expect((await check("/v1/batches", "POST", {}, { body: other })).status).toBe(409),
  );
  expect((await check("/v1/batches", "POST", {}, { body, ...keyed })).text).toContain(
    JSON.parse(created.text).id,
  );
  expect(created.status).toBe(200);
  const { id } = JSON.parse(created.text) as { id: string };
  expect((await check("/v1/files/{id}", "DELETE", { id: input_file_id })).status).toBe(409);
  await check("/v1/batches/{id}", "GET", { id });
  await check("/v1/batches/{id}/cancel", "POST", { id });
  const unknown = { ...terms, input_file_id: `file-${UNKNOWN}` };
  expect((await check("/v1/batches", "POST", {}, { body: unknown })).status).toBe(404);
  await check("/v1/batches", "GET", {}, { query: "?limit=1" });
  await check("/v1/batches", "GET", {}, { query: `?after=batch_${UNKNOWN}` });
}

/** A form that says it is larger than any file, and never comes. */
async function refuseLength({ whole, seen }: Conformance): Promise<void> {
  const headers = {
    authorization: "Bearer own",
    "content-type": "multipart/form-data; boundary=x",
    "content-length": String(4 * 1024 ** 3),
  };
  const sent = request(`${whole.url}/v1/files`, { method: "POST", headers });
  sent.on("error", () => undefined);
  sent.flushHeaders();
  const [response] = (await once(sent, "response")) as [{ statusCode?: number }];
  sent.destroy();
  expect(response.statusCode).toBe(413);
  seen.add("POST /v1/files 413");
}

function withPurpose(lines: readonly object[]): FormData {
  const form = formOf(lines);
  form.append("purpose", "batch");
  return form;
}

function lineOf(key: string): object {
  return { key, request: { model: "echo:test", contents: [{ parts: [{ text: "x" }] }] } };
}
