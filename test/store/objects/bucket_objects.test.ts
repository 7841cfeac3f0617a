/** How a bucket is asked again, and when not: against a server whose answers the test decides. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Objects } from "../../../src/store/objects/objects.ts";
import { openObjects } from "../../../src/store/objects/open_objects.ts";
import { FakeClock } from "../../../src/testing/fake_clock.ts";

const NAME = "p1/1/0-1.e1";

let server: Server;
let objects: Objects;
let clock: FakeClock;
let asked: IncomingMessage[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  asked = [];
  server = createServer((request, response) => {
    asked.push(request);
    request.resume().on("end", () => answer(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  clock = new FakeClock();
  const env = {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
    AWS_ACCESS_KEY_ID: "key",
    AWS_SECRET_ACCESS_KEY: "secret",
  };
  objects = await openObjects({ url: "s3://bucket/team/perigee/", env, clock });
});

afterEach(async () => {
  await objects.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** Waits pass at once. */
async function soon<T>(work: Promise<T>): Promise<T> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  work.then(end, end);
  while (!isOver) {
    await clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return work;
}

it("is asked again after a fault that passes, under the prefix, and only where nothing has the name", async () => {
  answer = (_request, response) => response.writeHead(asked.length < 4 ? 503 : 200).end();
  await soon(objects.put(NAME, Buffer.from("bytes")));
  expect(asked).toHaveLength(4);
  expect(asked[0]).toMatchObject({ method: "PUT", headers: { "if-none-match": "*" } });
  expect(asked[0]?.url).toMatch(/^\/bucket\/team\/perigee\/p1\/1\/0-1\.e1/);
});

it("is asked 8 times at most, and what it says is in the error", async () => {
  answer = (_request, response) => response.writeHead(500).end();
  const failure = {
    code: "store_failed",
    message: expect.stringContaining(`s3://bucket/team/perigee/${NAME} (500`),
  };
  await expect(soon(objects.get(NAME, 0, 10))).rejects.toMatchObject(failure);
  expect(asked).toHaveLength(8);
});

it("is not asked again after a refusal", async () => {
  answer = (_request, response) => response.writeHead(403).end();
  await expect(soon(objects.get(NAME, 0, 10))).rejects.toMatchObject({ code: "store_failed" });
  expect(asked).toHaveLength(1);
});

it("takes a put that was made before, and refuses other bytes", async () => {
  answer = (request, response) =>
    request.method === "PUT" ? response.writeHead(412).end() : response.writeHead(206).end("bytes");
  await soon(objects.put(NAME, Buffer.from("bytes")));
  await expect(soon(objects.put(NAME, Buffer.from("other")))).rejects.toMatchObject({ code: "conflict" });
});

it("does without the condition where the store does not know it", async () => {
  answer = (request, response) =>
    response.writeHead(request.headers["if-none-match"] === undefined ? 200 : 501).end();
  await soon(objects.put(NAME, Buffer.from("bytes")));
  await soon(objects.put("p1/1/5-2.e1", Buffer.from("bytes")));
  expect(asked.map(({ headers }) => headers["if-none-match"])).toEqual(["*", undefined, undefined]);
});

it("refuses an address that is no place of objects", async () => {
  for (const url of ["/shared/folder", "https://bucket", "s3:///prefix", "file://host/folder"])
    await expect(openObjects({ url }), url).rejects.toMatchObject({ code: "usage" });
});
