/**
 * Calls of the front with each of their documented statuses.
 */
import { expect } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type { Conformance } from "./conformance_files.ts";

const CALLS: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { model: "echo:small", messages: [{ role: "user", content: "hi" }] },
  "/v1/completions": { model: "echo:small", prompt: "hi" },
  "/v1/embeddings": { model: "echo:small", input: "hi" },
  "/v1/responses": { model: "echo:small", input: "hi" },
};

export async function callFront({ check, whole }: Conformance): Promise<void> {
  for (const [path, body] of Object.entries(CALLS)) {
    const status = async (given: object, more: object = {}): Promise<number> =>
      (await check(path, "POST", {}, { body: given, ...more })).status;
    const keyed = { headers: { "idempotency-key": path } };
    expect(await status(body, keyed)).toBe(200);
    expect(await status({ ...body, user: "other" }, keyed)).toBe(409);
    expect(await status({ ...body, model: "openai:" })).toBe(404);
    await whole.refused(new PerigeeError("budget_exceeded", "no money left"), async () =>
      expect(await status(body)).toBe(402),
    );
  }
  const created = await check("/v1/responses", "POST", {}, { body: CALLS["/v1/responses"] });
  const { id } = JSON.parse(created.text) as { id: string };
  expect((await check("/v1/responses/{id}", "GET", { id })).status).toBe(200);
  expect((await check("/v1/responses/{id}/cancel", "POST", { id })).status).toBe(200);
  expect((await check("/v1/models", "GET", {})).status).toBe(200);
  expect((await check("/v1/models/{id}", "GET", { id: "echo:small" })).status).toBe(200);
}
