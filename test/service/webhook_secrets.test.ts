/** What signs webhooks, on the disk. */
import { expect, it } from "vitest";
import { EVERY_PROJECT, type StoredRecord } from "../../src/store/records.ts";
import { openWebhookWorld, type WebhookWorld } from "./webhook_world.ts";

const SETTINGS = {
  url: "https://hooks.example.org/in",
  events: ["task.completed"],
  description: "",
} as const;

async function endpointRecords({ store }: WebhookWorld): Promise<readonly StoredRecord[]> {
  return await store.records(EVERY_PROJECT, { collection: "webhook_endpoint", limit: 100 });
}

function textOf({ body, payload }: StoredRecord): string {
  return body + Buffer.from(payload ?? []).toString("latin1");
}

it("the secrets of an endpoint are stored encrypted, also those of a rotation, and sign after a restart", async () => {
  const world = await openWebhookWorld();
  const { id, secrets } = await world.webhooks.endpoints.create("one", SETTINGS);
  const rotated = await world.webhooks.endpoints.rotate("one", id);
  const texts = [...secrets, ...rotated.secrets].map(({ text }) => text);
  expect(new Set(texts).size).toBe(2);
  const stored = (await endpointRecords(world)).map(textOf).join();
  for (const text of texts) expect(stored).not.toContain(text);
  expect(stored).not.toContain("whsec_");
  await world.restart();
  expect(await world.webhooks.endpoints.get("one", id)).toEqual(rotated);
  const finished = world.finish("task-1");
  await world.clock.advance(1_000);
  await finished;
  expect(world.seen[0]?.headers["webhook-signature"]?.split(" ")).toHaveLength(2);
});

it("secrets that were stored in the clear are encrypted at the next start, and stay the same", async () => {
  const world = await openWebhookWorld();
  const endpoint = await world.webhooks.endpoints.create("one", SETTINGS);
  const [record] = await endpointRecords(world);
  if (record === undefined) throw new Error("no record");
  const { payload: _sealed, ...rest } = record;
  const body = JSON.stringify({ ...JSON.parse(record.body), secrets: endpoint.secrets });
  await world.store.change([{ kind: "put", record: { ...rest, body } }]);
  await world.restart();
  expect((await endpointRecords(world)).map(textOf).join()).not.toContain("whsec_");
  expect(await world.webhooks.endpoints.get("one", endpoint.id)).toEqual(endpoint);
});

it("a ciphertext of another endpoint does not open", async () => {
  const world = await openWebhookWorld();
  await world.webhooks.endpoints.create("one", SETTINGS);
  await world.webhooks.endpoints.create("two", SETTINGS);
  const [first, second] = await endpointRecords(world);
  if (first === undefined || second?.payload === undefined) throw new Error("no records");
  await world.store.change([{ kind: "put", record: { ...first, payload: second.payload } }]);
  await world.restart();
  await expect(world.webhooks.endpoints.list(first.project)).rejects.toMatchObject({ code: "store_damaged" });
});
