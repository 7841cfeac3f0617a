/** Fault 97: real receivers that reset after a 2xx, hang, send 10 GB, or are gone. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { textsOf } from "../satellites/execution_world.ts";
import { openWebhookWorld, type WebhookWorld } from "../service/webhook_world.ts";

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

interface Real {
  readonly world: WebhookWorld;
  readonly endpointId: string;
  readonly ids: string[];
  last(): Promise<object | undefined>;
  until(isTrue: () => boolean | Promise<boolean>): Promise<void>;
}

/** The clock is the test's, the network is real. */
async function open(
  answer: (request: IncomingMessage, response: ServerResponse, call: number) => void,
): Promise<Real> {
  const ids: string[] = [];
  const server = createServer((request, response) => {
    ids.push(String(request.headers["webhook-id"]));
    request.resume();
    request.on("end", () => answer(request, response, ids.length));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const world = await openWebhookWorld((clock) =>
    createEgress({ clock, allow: new AllowList(["127.0.0.1"]) }),
  );
  closers.push(
    () => world.webhooks.close(),
    () => {
      server.close();
      server.closeAllConnections();
    },
  );
  const { id } = await world.webhooks.endpoints.create("one", {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    events: ["task.completed"],
    description: "",
  });
  return {
    world,
    endpointId: id,
    ids,
    last: async () => (await world.webhooks.deliveries.list("one", id, { limit: 1 })).items[0],
    until: async (isTrue) => {
      for (;;) {
        await world.clock.advance(0);
        if (await isTrue()) return;
        await sleep(5);
      }
    },
  };
}

it("fault 97: a receiver that resets before it answers gets the same id again, one that resets after a 2xx has it", async () => {
  const { world, ids, last, until } = await open((request, response, call) => {
    if (call === 1) {
      request.socket.resetAndDestroy();
      return;
    }
    response.writeHead(200, { "content-length": "100" });
    response.write("part");
    setTimeout(() => request.socket.resetAndDestroy(), 20);
  });
  await world.finish("1-1");
  await until(async () => JSON.stringify(await last()).includes('"attempts":1'));
  expect(await last()).toMatchObject({ status: "waiting", lastError: "lost" });
  await world.clock.advance(6_000);
  await until(async () => JSON.stringify(await last()).includes('"delivered"'));
  expect(await last()).toMatchObject({ attempts: 2, lastStatus: 200 });
  await world.clock.advance(86_400_000);
  expect(ids).toEqual(["msg_11_finished", "msg_11_finished"]);
});

it("fault 97: a receiver that hangs is given up after 15 s and tried again", async () => {
  const { world, ids, last, until } = await open((_request, response, call) => {
    if (call > 1) response.end();
  });
  await world.finish("1-1");
  await until(() => ids.length === 1);
  await world.clock.advance(14_999);
  await sleep(20);
  expect(await last()).toMatchObject({ status: "waiting", attempts: 0 });
  await world.clock.advance(1);
  await until(async () => JSON.stringify(await last()).includes('"timeout"'));
  await world.clock.advance(6_000);
  await until(async () => JSON.stringify(await last()).includes('"delivered"'));
  expect(new Set(ids).size).toBe(1);
});

it("fault 97: an answer of 10 GB counts by its status, is cut at 64 KiB and not stored", async () => {
  let written = 0;
  const closed: Promise<void>[] = [];
  const { world, last, until } = await open((request, response) => {
    closed.push(new Promise((resolve) => request.socket.once("close", () => resolve())));
    response.writeHead(200, { "content-length": String(10 * 2 ** 30) });
    const chunk = Buffer.alloc(65_536, "A");
    const pump = (): void => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length;
    };
    response.on("drain", pump);
    pump();
  });
  await world.finish("1-1");
  await until(async () => JSON.stringify(await last()).includes('"delivered"'));
  await Promise.all(closed);
  expect(written).toBeLessThan(64 * 2 ** 20);
  const texts = await textsOf(world.store);
  expect(texts.join()).toContain('"status":200');
  expect(texts.join()).not.toContain("AAAA");
  expect(texts.join()).not.toContain("task_id"); // of the message
});

it("fault 97: 410 stops", async () => {
  const { world, endpointId, ids, last, until } = await open((_request, response) =>
    response.writeHead(410).end(),
  );
  await world.finish("1-1");
  await until(async () => JSON.stringify(await last()).includes('"failed"'));
  await until(async () => (await world.webhooks.endpoints.get("one", endpointId)).disabled === "gone");
  await world.finish("1-2");
  await world.clock.advance(86_400_000);
  expect(ids).toHaveLength(1);
});
