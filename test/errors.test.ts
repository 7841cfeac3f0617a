import { expect, it } from "vitest";
import { hasCode, ifFound, PerigeeError } from "../src/errors.ts";

it("gives undefined for what is not found, and rejects as before with anything else", async () => {
  const missing = new PerigeeError("not_found", "no such task");
  const taken = new PerigeeError("conflict", "the id is in use");

  expect(await ifFound(Promise.resolve(3))).toBe(3);
  expect(await ifFound(Promise.reject(missing))).toBeUndefined();
  await expect(ifFound(Promise.reject(taken))).rejects.toBe(taken);
  await expect(ifFound(Promise.reject(new Error("not_found")))).rejects.toThrow("not_found");
});

it("knows only the codes of its own errors", () => {
  expect(hasCode(new PerigeeError("closed", "closing"), "closed")).toBe(true);
  expect(hasCode(new PerigeeError("closed", "closing"), "conflict")).toBe(false);
  expect(hasCode(Object.assign(new Error("x"), { code: "closed" }), "closed")).toBe(false);
});
