/**
 * The part of the conformance test that is about satellites: what is sent to them, right and wrong.
 */
import { expect } from "vitest";
import type { Conformance } from "./conformance_files.ts";

/** Answers every documented status of secrets. */
export async function callSecrets({ check }: Conformance): Promise<void> {
  const [path, name] = ["/v1/secrets/{name}", { name: "token" }];
  expect((await check(path, "PUT", name, { body: { value: "hidden" } })).status).toBe(200);
  expect((await check(path, "PUT", { name: "Token" }, { body: { value: "hidden" } })).status).toBe(422);
  expect((await check("/v1/secrets", "GET", {})).text).not.toContain("hidden");
  expect((await check(path, "DELETE", name)).status).toBe(200);
}
