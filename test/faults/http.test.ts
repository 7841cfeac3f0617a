/**
 * Faults of the wire and of keys (docs: shared fault numbers), over real sockets.
 */
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type { KeyVerifier } from "../../src/service/http/key_verifier.ts";
import { addressName } from "../../src/service/http/request_limits.ts";
import { checkAddress } from "../../src/service/http/server.ts";
import { fakeVerifier, openWorld, withoutId } from "../service/world.ts";

const item = { model: "echo:test", input: "hello", sla: 60 };
const AUTH = "authorization: Bearer key-one\r\n";
const HOST = "host: x\r\n";

describe("fault 85: keys", () => {
  it("answers one 401 to no key, and to malformed, bare, other-scheme and unknown ones", async () => {
    const { call } = await openWorld();
    const headers = [
      {},
      { authorization: "" },
      { authorization: "key-one" },
      { authorization: "Basic key-one" },
      { authorization: "Bearer" },
      { authorization: "Bearer  key-one" },
      { authorization: "Bearer wrong-canary" },
      { authorization: "Bearer key-one, Bearer key-two" },
    ];
    const answers = [];
    for (const each of headers)
      answers.push(
        await call("GET", "/v0/infer/tasks", { key: "", headers: each as Record<string, string> }),
      );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
    expect(new Set(answers.map(withoutId)).size).toBe(1);
    expect(answers[0]?.headers.get("www-authenticate")).toMatch(/^Bearer/);
    expect(answers[0]?.text).not.toContain("canary");
  });

  it("asks for the key before it reads the body", async () => {
    const { raw } = await openWorld();
    const text = await raw(
      `POST /v0/infer/ HTTP/1.1\r\n${HOST}content-type: application/json\r\ncontent-length: 500000\r\n\r\n[`,
      500,
    );
    expect(text).toMatch(/^HTTP\/1.1 401 /);
  });

  it("answers 403 to a key without the scope", async () => {
    const { call } = await openWorld();
    const { status, json } = await call("POST", "/v0/infer/", { key: "key-reader", body: [item] });
    expect([status, json.error.type, json.error.code]).toEqual([403, "permission_error", "forbidden"]);
  });

  it("lets an address try 60 times a minute without a valid key, and valid keys go on", async () => {
    const { call } = await openWorld();
    const statuses = [];
    for (let n = 0; n < 62; n += 1)
      statuses.push((await call("GET", "/v0/infer/tasks", { key: "wrong" })).status);
    expect(statuses.slice(0, 60)).toEqual(Array.from({ length: 60 }, () => 401));
    const { status, headers } = await call("GET", "/v0/no-such-path", { key: "wrong" });
    expect([status, headers.get("retry-after")]).toEqual([429, "1"]);
    expect((await call("GET", "/v0/infer/tasks")).status).toBe(200);
  });

  it("counts an IPv4 address once, however Node shows it, and IPv6 by its network", () => {
    expect(addressName("::ffff:192.0.2.7")).toBe(addressName("192.0.2.7"));
    expect(addressName("2001:db8:1:2:3:4:5:6")).toBe(addressName("2001:db8:1:2::9"));
    expect(addressName("2001:db8:1:2::9")).not.toBe(addressName("2001:db8:1:3::9"));
  });

  it("tells each key what is left of its requests a minute, and stops it there", async () => {
    const { call } = await openWorld({ limits: { requestsPerMinute: 3 } });
    const left = [];
    for (let n = 0; n < 3; n += 1)
      left.push((await call("GET", "/v0/infer/tasks")).headers.get("x-ratelimit-remaining-requests"));
    expect(left).toEqual(["2", "1", "0"]);
    const { status, json, headers } = await call("GET", "/v0/infer/tasks");
    expect([status, json.error.code, headers.get("retry-after")]).toEqual([429, "rate_limited", "20"]);
    expect((await call("GET", "/v0/infer/tasks", { key: "key-two" })).status).toBe(200);
  });

  it("counts what a key may not do as well", async () => {
    const { call } = await openWorld({ limits: { requestsPerMinute: 2 } });
    const refused = { key: "key-reader", body: [item] };
    const statuses = [];
    for (let n = 0; n < 3; n += 1) statuses.push((await call("POST", "/v0/infer/", refused)).status);
    expect(statuses).toEqual([403, 403, 429]);
  });

  it("refuses to listen where keys would cross a network in the clear", () => {
    for (const host of ["127.0.0.1", "::1", "localhost", "127.1.2.3"])
      expect(checkAddress(host, false)).toBeUndefined();
    for (const host of ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org"]) {
      expect(() => checkAddress(host, false)).toThrow(/--behind-proxy/);
      expect(checkAddress(host, true)).toBeUndefined();
    }
  });
});

describe("fault 91: Content-Encoding", () => {
  it("is 415 for every coding, before the body is read or inflated", async () => {
    const { call } = await openWorld();
    for (const coding of ["gzip", "br", "zstd", "deflate", "identity"]) {
      const { status, json } = await call("POST", "/v0/infer/", {
        body: gzipSync(JSON.stringify([item])).toString("latin1"),
        headers: { "content-encoding": coding },
      });
      expect([coding, status, json.error.code]).toEqual([coding, 415, "unsupported_media_type"]);
    }
  });
});

describe("fault 92: the wire", () => {
  const body = JSON.stringify([item]);

  it("takes no transfer coding beside chunked", async () => {
    const { raw } = await openWorld();
    const head = `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\nconnection: close\r\n`;
    const chunks = `\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    expect(await raw(`${head}transfer-encoding: Chunked\r\n${chunks}`)).toMatch(/^HTTP\/1.1 200 /);
    expect(await raw(`${head}transfer-encoding: gzip, chunked\r\n${chunks}`)).toMatch(/^HTTP\/1.1 400 /);
  });

  it("refuses both lengths in one request, and a header folded or named oddly", async () => {
    const { raw, tasks } = await openWorld();
    const smuggled = [
      `content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v0/infer/tasks HTTP/1.1\r\n${HOST}${AUTH}\r\n`,
      `transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      `transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`,
      `content-length: 4\r\ncontent-length: 5\r\n\r\n[{}]x`,
      `content-length: +4\r\n\r\n[{}]`,
      `content-length : 4\r\n\r\n[{}]`,
      `x: y\r\n folded\r\ncontent-length: 4\r\n\r\n[{}]`,
    ];
    for (const rest of smuggled) {
      const text = await raw(
        `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\n${rest}`,
        800,
      );
      expect([rest, text.slice(0, 12)]).toEqual([rest, "HTTP/1.1 400"]);
      expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
      expect(text).toContain('"code":"invalid_request"');
    }
    expect(tasks.held.size).toBe(0);
  });

  it("refuses two hosts in one request (RFC 9112, 3.2), at any place and with any names", async () => {
    const { raw, tasks } = await openWorld();
    const head = `${AUTH}content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
    const post = (headers: string): Promise<string> =>
      raw(`POST /v0/infer/ HTTP/1.1\r\n${headers}\r\n${body}`);
    for (const headers of [
      `${HOST}host: y\r\n${head}`,
      `${HOST}${head}HOST: x\r\n`,
      `${HOST}${HOST}${HOST}${head}`,
    ]) {
      const text = await post(headers);
      expect([headers, text.slice(0, 12)]).toEqual([headers, "HTTP/1.1 400"]);
      expect(text).toContain('"code":"invalid_request"');
    }
    expect(tasks.held.size).toBe(0);
    expect(await post(`${HOST}x-host: y\r\nhos: t\r\n${head}`)).toMatch(/^HTTP\/1\.1 200 /);
    const healthy = await raw(`GET /v0/nothing HTTP/1.1\r\n${HOST}${HOST}connection: close\r\n\r\n`);
    expect(healthy).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("refuses HTTP/1.1 without a host in the shape of all errors", async () => {
    const { raw } = await openWorld();
    for (const path of ["/v0/infer/tasks", "/healthz", "/none"]) {
      const text = await raw(`GET ${path} HTTP/1.1\r\n${AUTH}connection: close\r\n\r\n`);
      expect([path, text.slice(0, 12)]).toEqual([path, "HTTP/1.1 400"]);
      expect(text).toMatch(/"code":"invalid_request".*"request_id":"req_/);
    }
  });

  it("refuses two keys in one request, of which a proxy before it may have checked the other one", async () => {
    const { raw, tasks } = await openWorld();
    const head = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
    for (const headers of [
      `${HOST}${AUTH}authorization: Bearer other\r\n${head}`,
      `${HOST}authorization: Bearer other\r\n${head}${AUTH}`,
      `${HOST}${AUTH}${head}${AUTH.toUpperCase()}`,
    ]) {
      const text = await raw(`POST /v0/infer/ HTTP/1.1\r\n${headers}\r\n${body}`);
      expect([headers, text.slice(0, 12)]).toEqual([headers, "HTTP/1.1 400"]);
    }
    expect(tasks.held.size).toBe(0);
  });

  it("answers HTTP/1.0 and closes", async () => {
    const { raw } = await openWorld();
    const text = await raw(
      `POST /v0/infer/ HTTP/1.0\r\n${AUTH}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.toLowerCase()).toContain("connection: close");
  });

  it("answers pipelined requests in order", async () => {
    const { raw } = await openWorld();
    const one = `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const text = await raw([one, `GET /v0/nothing HTTP/1.1\r\n${HOST}${AUTH}\r\n`, one], 800);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404", "HTTP/1.1 200"]);
  });

  it("refuses headers above 16 KiB with 431", async () => {
    const { raw } = await openWorld();
    const text = await raw(
      `GET /v0/infer/tasks HTTP/1.1\r\n${HOST}x-long: ${"x".repeat(1024 * 1024)}\r\n\r\n`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 431 /);
    const fits = await raw(
      `GET /v0/infer/tasks HTTP/1.1\r\n${HOST}${AUTH}x-long: ${"x".repeat(15_000)}\r\n\r\n`,
      500,
    );
    expect(fits).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("closes a connection whose headers do not come", async () => {
    const { raw } = await openWorld({ limits: { headersMs: 200 } });
    const startMs = performance.now();
    expect(await raw("GET /v0/infer/tasks HTTP/1.1\r\nx: ", 5_000)).toMatch(/^HTTP\/1\.1 408 /);
    expect(performance.now() - startMs).toBeLessThan(3_000);
  });

  it("closes a connection whose body stops, or arrives too slowly", async () => {
    const head = `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\ncontent-length: 100\r\n\r\n[`;
    const { raw } = await openWorld({ limits: { idleMs: 200 } });
    const startMs = performance.now();
    await raw(head, 5_000);
    expect(performance.now() - startMs).toBeLessThan(3_000);
    const slow = await openWorld({ limits: { uploadMs: 300 } });
    await slow.raw(head, 5_000);
    expect(performance.now() - startMs).toBeLessThan(4_000);
  });

  it("takes a request that arrives as the keep-alive time ends, and closes the connection later", async () => {
    const { port } = await openWorld({ limits: { keepAliveMs: 1_000 } });
    const socket = connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
    });
    const ended = new Promise((resolve) => socket.once("close", resolve));
    const get = `GET /v0/nothing HTTP/1.1\r\n${HOST}${AUTH}\r\n`;
    socket.write(get);
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    socket.write(get);
    await ended;
    expect(text.match(/HTTP\/1\.1 404/g)).toHaveLength(2);
    expect(text).toContain("Keep-Alive: timeout=1");
  });

  it("takes a body that arrives slowly but steadily, longer than headers may take", async () => {
    const { port } = await openWorld({ limits: { headersMs: 300 } });
    const socket = connect(port, "127.0.0.1");
    socket.write(
      `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`,
    );
    for (const part of [body.slice(0, 10), body.slice(10, 20), body.slice(20)]) {
      await new Promise((resolve) => setTimeout(resolve, 800));
      socket.write(part);
    }
    const text = await new Promise((resolve) => socket.once("data", (chunk) => resolve(chunk.toString())));
    socket.destroy();
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("waits for an answer that is being made, however long", async () => {
    const { call } = await openWorld({
      limits: { idleMs: 100 },
      register: ({ app }) => {
        app.get("/slow", { config: {} }, async () => {
          await new Promise((resolve) => setTimeout(resolve, 600));
          return { ok: true };
        });
      },
    });
    expect((await call("GET", "/slow")).json).toEqual({ ok: true });
  });

  it("goes on after clients that leave amid a body", async () => {
    const { raw, call } = await openWorld();
    await raw(
      `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n[\r\n`,
      100,
    );
    await raw(
      `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\ncontent-length: 100\r\n\r\n[`,
      100,
    );
    expect((await call("POST", "/v0/infer/", { body: [item] })).status).toBe(200);
  });
});

describe("fault 93: methods and types", () => {
  it("answers 405 with Allow to another method, and 404 where nothing is", async () => {
    const { call } = await openWorld();
    const wrong = await call("PUT", "/v0/infer/", { body: [item] });
    expect([wrong.status, wrong.headers.get("allow"), wrong.json.error.code]).toEqual([
      405,
      "OPTIONS, POST",
      "method_not_allowed",
    ]);
    expect((await call("PATCH", "/v0/infer/task/x")).headers.get("allow")).toBe("DELETE, GET, HEAD, OPTIONS");
    const none = await call("GET", "/v0/infer/none");
    expect([none.status, none.json.error.code]).toEqual([404, "not_found"]);
    expect((await call("GET", "/%zz")).status).toBe(400);
    expect((await call("GET", `/v0/infer/task/${"x".repeat(3_000)}`)).status).toBe(414);
  });

  it("answers OPTIONS with the methods, HEAD like GET without a body, and allows no other origin", async () => {
    const { call } = await openWorld();
    const options = await call("OPTIONS", "/v0/infer/", { headers: { origin: "https://evil.example" } });
    expect([options.status, options.headers.get("allow")]).toEqual([204, "OPTIONS, POST"]);
    expect(options.headers.has("access-control-allow-origin")).toBe(false);
    const head = await call("HEAD", "/v0/infer/tasks");
    const get = await call("GET", "/v0/infer/tasks");
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
    expect(get.headers.get("x-content-type-options")).toBe("nosniff");
    expect(get.headers.get("x-request-id")).toMatch(/^req_/);
  });

  it("answers 415 to a body that is not declared as JSON in UTF-8", async () => {
    const { call, raw } = await openWorld();
    for (const type of [
      "text/plain",
      "application/xml",
      "multipart/form-data",
      "application/json; charset=utf-16",
      "x",
    ]) {
      const { status } = await call("POST", "/v0/infer/", {
        body: [item],
        headers: { "content-type": type },
      });
      expect([type, status]).toEqual([type, 415]);
    }
    for (const type of ["application/json; charset=UTF-8", "Application/JSON"])
      expect(
        (await call("POST", "/v0/infer/", { body: [item], headers: { "content-type": type } })).status,
      ).toBe(200);
    expect(await raw(`POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-length: 4\r\n\r\n[{}]`, 300)).toMatch(
      /^HTTP\/1\.1 415 /,
    );
  });

  it("answers 400 to bytes that are not UTF-8", async () => {
    const { raw } = await openWorld();
    const bytes = '[{"model":"echo:a","input":"\xff"}]';
    const text = await raw(
      `POST /v0/infer/ HTTP/1.1\r\n${HOST}${AUTH}content-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes}`,
      300,
    );
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe("fault 94: fields that a request must not set", () => {
  it.each(["status", "price_factor", "tenant", "project", "base_url", "key", "__proto__", "constructor"])(
    "refuses %s with 422",
    async (field) => {
      const { call, tasks } = await openWorld();
      const body = `[{"model":"echo:test","input":"x","sla":5,"${field}":"https://evil.example"}]`;
      const { status, json } = await call("POST", "/v0/infer/", { body });
      expect([status, json.error.param]).toEqual([422, `0.${field}`]);
      expect(tasks.held.size).toBe(0);
    },
  );
});

describe("fault 95: what error texts hold", () => {
  it("shows nothing of a fault of perigee, and passes it to the log with the request's id", async () => {
    const { call, tasks, faults } = await openWorld();
    for (const failure of [
      new Error("canary in /var/data with prompt"),
      new PerigeeError("store_damaged", "canary in /var/data", { details: { path: "/var/canary" } }),
      new PerigeeError("store_failed", "canary"),
      new PerigeeError("disk_full", "canary"),
      Object.assign(new Error("canary"), { statusCode: 418 }),
    ]) {
      tasks.failure = failure;
      const { status, text, headers, json } = await call("POST", "/v0/infer/", { body: [item] });
      expect(status).toBeGreaterThanOrEqual(500);
      expect(text).not.toContain("canary");
      expect(json.request_id).toBe(headers.get("x-request-id"));
      expect(faults.at(-1)).toBe(failure);
    }
  });

  it("has no headers of the answer that it replaces", async () => {
    const { call } = await openWorld({
      register: ({ app }) => {
        app.get("/v0/late", (_request, reply) => {
          reply.code(206).headers({ etag: '"a"', "content-range": "bytes 0-1/2", "x-incomplete": "true" });
          reply.headers({ "content-disposition": "attachment", "accept-ranges": "bytes" });
          throw new PerigeeError("too_many", "at most 20", { details: { retryAfterSeconds: 5 } });
        });
      },
    });
    const { status, headers } = await call("GET", "/v0/late");
    expect([status, headers.get("retry-after")]).toEqual([429, "5"]);
    for (const name of ["etag", "content-range", "content-disposition", "accept-ranges", "x-incomplete"])
      expect([name, headers.get(name)]).toEqual([name, null]);
  });

  it("names an unknown field only when it looks like one", async () => {
    const { call } = await openWorld();
    const answers = [];
    for (const name of ["status", "my canary ".repeat(10_000)]) {
      const { json, text } = await call("POST", "/v0/infer/", { body: [{ ...item, [name]: 1 }] });
      answers.push([json.error.message, json.error.param, text.length < 400]);
    }
    expect(answers).toEqual([
      ['item 0: "status" is not a known name', "0.status", true],
      ["item 0: one of its names is not known", "0", true],
    ]);
  });

  it("never returns a prompt, a key or a requested id", async () => {
    const { call } = await openWorld();
    const answers = [
      await call("POST", "/v0/infer/", { body: [{ model: "canary-model", input: "canary", sla: "canary" }] }),
      await call("POST", "/v0/infer/", { body: [{ file_id: "canary" }] }),
      await call("GET", "/v0/infer/task/canary"),
      await call("GET", "/v0/infer/object/canary"),
      await call("GET", "/v0/infer/tasks?limit=canary"),
      await call("GET", "/v0/canary?canary=1"),
      await call("GET", "/v0/infer/tasks", { key: "canary" }),
    ];
    for (const { status, text } of answers) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(text).not.toContain("canary");
    }
  });
});

it("verifies each request's key again, so that a revocation holds at once", async () => {
  let isRevoked = false;
  const verifier: KeyVerifier = {
    verify: (authorization, area) => (isRevoked ? undefined : fakeVerifier.verify(authorization, area)),
  };
  const { call } = await openWorld({ verifier });
  expect((await call("GET", "/v0/infer/tasks")).status).toBe(200);
  isRevoked = true;
  expect((await call("GET", "/v0/infer/tasks")).status).toBe(401);
});
