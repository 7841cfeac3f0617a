/** `GET /v0/infer/object/{id}/receipt`: its hash is over its own bytes, and only its project sees it. */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { openWhole } from "./whole.ts";

const whole = await openWhole();

it("returns how an object was sent and what it took, hashed by itself", async () => {
  const made = await whole.call("POST", "/v0/infer/", {
    key: "own",
    body: [{ model: "echo:test", input: "x" }],
  });
  const { objects } = JSON.parse(made.text) as { objects: { object_id: string }[] };
  const id = objects[0]?.object_id ?? "";
  const path = `/v0/infer/object/${id}/receipt`;
  const { status, text } = await whole.call("GET", path, { key: "own" });
  expect(status).toBe(200);
  expect(JSON.parse(text)).toMatchObject({
    key: id,
    lane: "realtime",
    model: "echo:test",
    attempts: 1,
    met: null,
  });
  const [body = "", hash] = text.split(',"hash":"');
  expect(hash).toBe(`${createHash("sha256").update(`${body}}`).digest("hex")}"}`);
  expect((await whole.call("GET", path, { key: "other" })).status).toBe(404);
  expect((await whole.call("GET", path, { key: "powerless" })).status).toBe(403);
  expect((await whole.call("GET", path, { key: "nobody" })).status).toBe(401);
  expect((await whole.call("GET", "/v0/infer/object/abc/receipt", { key: "own" })).status).toBe(404);
});
