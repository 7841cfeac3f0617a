/** Objects of buckets by their addresses, at s3rver and at servers that fail as stores do. */
import { Agent, createServer, type Server, type ServerResponse } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { type ObjectFault, S3Objects } from "../../src/s3/s3_objects.ts";
import { openStore } from "../../src/satellites/builtin/files/open_store.ts";
import { storeConfig } from "../../src/satellites/builtin/files/store_config.ts";
import { type S3Server, startS3 } from "../satellites/builtin/s3_server.ts";

const KEYS = { AWS_ACCESS_KEY_ID: "S3RVER", AWS_SECRET_ACCESS_KEY: "S3RVER" };
const CONTENT = Buffer.alloc(300_000, "größe ");
const { signal } = new AbortController();

let s3: S3Server;
const opened: S3Objects[] = [];
const servers: Server[] = [];

beforeAll(async () => {
  s3 = await startS3();
  await put("docs/a b+ü%20.pdf", CONTENT);
});

afterAll(() => s3.close());

afterEach(() => {
  for (const objects of opened.splice(0)) objects.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function put(path: string, content: Uint8Array): Promise<void> {
  const egress = createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.0/8"]) });
  const config = storeConfig.parse(s3.store("one"));
  const store = await openStore(config, { roots: {}, opendal: {} }, { egress, clock: systemClock });
  const chunks = (async function* () {
    yield content;
  })();
  const file = { path, chunks, bytes: content.byteLength, mimeType: "application/pdf" };
  await store.write({ ...file, isReplacing: true, attemptId: "a" }, signal);
  store.close();
}

function open(env: Readonly<Record<string, string>> = { ...KEYS, AWS_ENDPOINT_URL: s3.endpoint }): S3Objects {
  const objects = new S3Objects(env, { httpAgent: new Agent(), httpsAgent: new TlsAgent() });
  opened.push(objects);
  return objects;
}

async function readAll(objects: S3Objects, address: string, version: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of objects.read(address, { version })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** A store that answers every request in one way. */
async function storeOf(answer: (response: ServerResponse, method: string) => void): Promise<string> {
  const server = createServer((request, response) => answer(response, request.method ?? ""));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const faultOf = (promise: Promise<unknown>): Promise<ObjectFault> =>
  promise.then(
    () => Promise.reject(new Error("it did not fail")),
    (error: ObjectFault) => error,
  );

describe("an object of a bucket", () => {
  it("is read by its address, whatever characters its key has", async () => {
    const objects = open();
    const address = "s3://one/docs/a b+ü%20.pdf";
    const { sizeBytes, version } = await objects.look(address);
    expect(sizeBytes).toBe(CONTENT.byteLength);
    expect((await readAll(objects, address, version)).equals(CONTENT)).toBe(true);
    expect(await objects.look(address)).toEqual({ sizeBytes, version });
  });

  it("is not read without the optional package, and the message says what to install", async () => {
    const agents = { httpAgent: new Agent(), httpsAgent: new TlsAgent() };
    const objects = new S3Objects(KEYS, agents, () => Promise.reject(new Error("Cannot find package")));
    opened.push(objects);
    expect(await faultOf(objects.look("s3://one/a"))).toMatchObject({
      message: "S3 needs the package @aws-sdk/client-s3: npm install @aws-sdk/client-s3",
      blamed: "object",
    });
  });

  it("is not read in another version than it was found in", async () => {
    const objects = open();
    await put("changing", Buffer.from("first"));
    const { version } = await objects.look("s3://one/changing");
    await put("changing", Buffer.from("other"));
    expect(await faultOf(readAll(objects, "s3://one/changing", version))).toMatchObject({
      blamed: "change",
      message: "it changed since its size was read",
    });
  });

  it.each([
    ["s3://one/missing.png", "it does not exist"],
    ["s3://nobucket/a.png", "it does not exist"],
  ])("is to blame itself if it does not exist: %s", async (address, message) => {
    expect(await faultOf(open().look(address))).toMatchObject({ blamed: "object", message });
  });

  it.each([
    [403, "object", /access is denied \(403\)/],
    [401, "object", /access is denied \(401\)/],
    [400, "object", /the store refuses it \(400\): check the bucket one and AWS_REGION/],
    [429, "store", /does not answer for now \(429\)/],
    [500, "store", /does not answer for now \(500\)/],
    [503, "store", /does not answer for now \(503\)/],
  ])("is judged by the status %i: the %s is to blame", async (status, blamed, message) => {
    const endpoint = await storeOf((response) => response.writeHead(status).end());
    const objects = open({ ...KEYS, AWS_ENDPOINT_URL_S3: endpoint });
    const fault = await faultOf(objects.look("s3://one/a.png"));
    expect(fault).toMatchObject({ blamed, message: expect.stringMatching(message) });
  });

  it("is not to blame if there is no connection, or it is lost in the middle", async () => {
    const objects = open({ ...KEYS, AWS_ENDPOINT_URL: "http://127.0.0.1:1" });
    expect(await faultOf(objects.look("s3://one/a.png"))).toMatchObject({
      blamed: "store",
      message: "the store could not be reached",
    });
    const endpoint = await storeOf((response, method) => {
      response.writeHead(200, { "content-length": "100000", etag: '"e"' });
      if (method === "HEAD") response.end();
      else response.write(Buffer.alloc(50_000), () => response.destroy());
    });
    const torn = open({ ...KEYS, AWS_ENDPOINT_URL: endpoint });
    const { version } = await torn.look("s3://one/a.png");
    expect(await faultOf(readAll(torn, "s3://one/a.png", version))).toMatchObject({
      blamed: "store",
      message: "the connection was lost while it was read",
    });
  });

  it("ends with the signal's reason when nobody waits for it", async () => {
    const endpoint = await storeOf(() => undefined);
    const objects = open({ ...KEYS, AWS_ENDPOINT_URL: endpoint });
    const controller = new AbortController();
    const looked = faultOf(objects.look("s3://one/a.png", controller.signal));
    controller.abort(new Error("stopped"));
    expect((await looked).message).toBe("stopped");
  });
});
