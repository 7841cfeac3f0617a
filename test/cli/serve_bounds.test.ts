/** What a configuration file says of how many requests `perigee serve` takes, and how large. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { readConfigFile } from "../../src/engine/config/config.ts";
import { createPerigeeService } from "../../src/service/index.ts";
import { fakeVerifier } from "../service/world.ts";

const headers = { authorization: "Bearer key-one", "content-type": "application/json" };
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A service with a file as `perigee serve --config` reads it. */
async function serve(requests: object) {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-bounds-"));
  closers.push(() => rmSync(dataDir, { recursive: true, force: true }));
  const path = join(dataDir, "perigee.json");
  writeFileSync(path, JSON.stringify({ requests }));
  const file = await readConfigFile(path);
  const service = await createPerigeeService({ ...file, dataDir, env: {}, verifier: fakeVerifier });
  closers.push(() => service.close());
  const url = await service.listen({ port: 0 });
  const post = async (items: readonly object[], more: Record<string, string> = {}) => {
    const given = { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(items) };
    const response = await fetch(`${url}/v0/infer/`, given);
    const { error } = (await response.json()) as { readonly error?: { readonly code: string } };
    return [response.status, error?.code];
  };
  return { url, post };
}

const item = { model: "echo:test", input: "hello", sla: 60 };
const large = { ...item, input: "x".repeat(600_000) };

it("bounds the items and the bytes of a POST, whether it is parsed at once or read as a stream", async () => {
  const { post } = await serve({ items: 3, bodyBytes: 2 * 1024 ** 2 });
  expect(await post([item, item, item])).toEqual([200, undefined]);
  expect(await post([item, item, item, item])).toEqual([422, "too_many"]);
  expect(await post([large, large, item])).toEqual([200, undefined]);
  expect(await post([large, large, item, item])).toEqual([422, "too_many"]);
  expect(await post([large, large, { ...large, input: "x".repeat(1_000_000) }])).toEqual([413, "too_large"]);
  const keyed = { "idempotency-key": "large" };
  expect(await post([large, large, large, large], keyed)).toEqual([413, "too_large"]);
});

it("bounds the requests a minute of a key, and of an address without one", async () => {
  const { url, post } = await serve({ perMinute: 3, perMinuteWithoutKey: 2 });
  const { headers: told } = await fetch(`${url}/v0/infer/tasks`, { headers });
  expect(told.get("x-ratelimit-limit-requests")).toBe("3");
  expect([await post([item]), await post([item]), await post([item])]).toEqual([
    [200, undefined],
    [200, undefined],
    [429, "rate_limited"],
  ]);
  const statuses = [];
  for (let count = 0; count < 3; count += 1) statuses.push((await fetch(`${url}/v0/infer/tasks`)).status);
  expect(statuses).toEqual([401, 401, 429]);
});

it.each([
  [{ items: 1_000_001 }, "items"],
  [{ bodyBytes: 1_000 }, "bodyBytes"],
  [{ perMinute: 0 }, "perMinute"],
  [{ perSecond: 1 }, "requests"],
])("refuses %j", async (requests, place) => {
  await expect(serve(requests)).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringContaining(place),
  });
});
