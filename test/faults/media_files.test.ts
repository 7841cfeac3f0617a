/**
 * The built command, real files and a real socket: requests with the content of files that lines name, by length and hash.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { startS3 } from "../satellites/builtin/s3_server.ts";
import { end, until } from "./killed_run.ts";

const MIB = 1024 * 1024;
const EDGE_BYTES = 400;
const START = ";base64,";
const isLinux = process.platform === "linux";

/** A request as it arrived; not its content, of which there may be gigabytes. */
interface Received {
  readonly line: number;
  readonly lengthBytes: number;
  readonly statedBytes: number;
  readonly sha256: string;
  /** What is before and after the base64. */
  readonly edges: readonly [string, string];
}

let folder: string;
let server: Server;
let received: Received[];
let status: (line: number) => number;
let inFlight: number;
let inFlightMost: number;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "perigee-media-"));
  mkdirSync(join(folder, "pictures"));
  received = [];
  status = () => 200;
  inFlight = inFlightMost = 0;
  server = createServer((request, response) => {
    inFlight += 1;
    inFlightMost = Math.max(inFlightMost, inFlight);
    const hash = createHash("sha256");
    let [head, tail, lengthBytes] = ["", "", 0];
    request.on("data", (chunk: Buffer) => {
      hash.update(chunk);
      lengthBytes += chunk.byteLength;
      if (head.length < EDGE_BYTES) head = (head + chunk.toString("latin1")).slice(0, EDGE_BYTES);
      tail = (tail + chunk.toString("latin1")).slice(-EDGE_BYTES);
    });
    request.on("close", () => {
      inFlight -= 1;
    });
    request.on("end", () => {
      const line = Number(/\[\[(\d+)\]\]/.exec(head)?.[1]);
      const start = head.slice(0, head.indexOf(START) + START.length);
      const rest = tail.slice(tail.lastIndexOf('"}}]}') < 0 ? 0 : tail.lastIndexOf('"}}]}'));
      const statedBytes = Number(request.headers["content-length"]);
      received.push({ line, lengthBytes, statedBytes, sha256: hash.digest("hex"), edges: [start, rest] });
      response.writeHead(status(line), { "content-type": "application/json" });
      const choices = [{ message: { content: `answer ${line}` }, finish_reason: "stop" }];
      response.end(JSON.stringify({ choices, usage: { prompt_tokens: 5, completion_tokens: 2 } }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterEach(() => {
  for (const child of children.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Bytes that differ from place to place and file to file. */
function contentOf(bytes: number, seed: number): Buffer {
  const content = Buffer.alloc(bytes);
  for (let at = 0; at + 4 <= bytes; at += 4) content.writeUInt32LE((at * 2_654_435_761 + seed) >>> 0, at);
  return content;
}

function write(
  lines: number,
  placeOf: (line: number) => object = (line) => ({ path: `pictures/${line}.png` }),
): void {
  const written = Array.from({ length: lines }, (_, index) => {
    const parts = [{ text: `[[${index + 1}]]` }, { file_data: placeOf(index + 1) }];
    return JSON.stringify({ key: `k${index + 1}`, request: { model: "local:m1", contents: [{ parts }] } });
  });
  writeFileSync(join(folder, "in.jsonl"), `${written.join("\n")}\n`);
}

/** Run from elsewhere: paths are those of the input's folder. */
function start(env: Readonly<Record<string, string>> = {}): ChildProcess {
  const { port } = server.address() as AddressInfo;
  const words = [MAIN, "run", join(folder, "in.jsonl"), "--out", join(folder, "out.jsonl"), "--json"];
  const child = spawn(process.execPath, words, {
    cwd: tmpdir(),
    env: {
      PATH: process.env["PATH"],
      XDG_STATE_HOME: join(folder, "state"),
      PERIGEE_PROVIDER_LOCAL_BASE_URL: `http://127.0.0.1:${port}/v1`,
      PERIGEE_MAX_INFLIGHT: "32",
      ...env,
    },
  });
  children.push(child);
  child.stderr?.resume();
  return child;
}

function expectWhole({ lengthBytes, statedBytes, sha256, edges }: Received, content: Buffer): void {
  const body = `${edges[0]}${content.toString("base64")}${edges[1]}`;
  expect({ lengthBytes, statedBytes, sha256 }).toEqual({
    lengthBytes: body.length,
    statedBytes: body.length,
    sha256: createHash("sha256").update(body).digest("hex"),
  });
}

const answered = (): string[] =>
  readFileSync(join(folder, "out.jsonl"), "utf8")
    .split("\n")
    .flatMap((line) =>
      line === "" ? [] : [(JSON.parse(line) as { key: string; output: object | null }).key],
    );

describe("lines that name files", () => {
  it.runIf(isLinux)(
    "of 10 MB each, 32 at a time, are sent whole within little memory",
    async () => {
      const contents = [0, 1, 2].map((seed) => contentOf(10 * 1_000_000 + seed, seed));
      for (const [seed, content] of contents.entries()) writeFileSync(join(folder, `${seed}`), content);
      for (let line = 1; line <= 64; line += 1)
        linkSync(join(folder, `${line % 3}`), join(folder, "pictures", `${line}.png`));
      write(64);
      const failures = new Set([1, 2, 3]);
      status = (line) => (failures.delete(line) ? 500 : 200);
      const child = start();
      let peakKib = 0;
      const watch = setInterval(() => {
        try {
          const text = readFileSync(`/proc/${child.pid}/status`, "utf8");
          peakKib = Number(/VmHWM:\s+(\d+)/.exec(text)?.[1] ?? peakKib);
        } catch {
          // it has ended
        }
      }, 10);
      expect((await end(child)).code).toBe(0);
      clearInterval(watch);
      expect(new Set(answered()).size).toBe(64);
      expect(received).toHaveLength(67); // those that failed were read again
      for (const one of received) expectWhole(one, contents[one.line % 3] as Buffer);
      expect(inFlightMost).toBeGreaterThanOrEqual(24);
      expect(peakKib / 1024).toBeLessThan(224); // 182 were measured, of which an empty run has most
    },
    180_000,
  );

  it("of a bucket are sent whole, and one that does not exist ends its line", async () => {
    const s3 = await startS3();
    try {
      const content = contentOf(1_000_000, 1);
      const credentials = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" };
      const place = { endpoint: s3.endpoint, forcePathStyle: true, region: "us-east-1" };
      const client = new S3Client({ ...place, credentials });
      await client.send(new PutObjectCommand({ Bucket: "one", Key: "a/1.png", Body: content }));
      client.destroy();
      write(2, (line) => ({ file_uri: `s3://one/a/${line}.png` }));
      const keys = { AWS_ACCESS_KEY_ID: "S3RVER", AWS_SECRET_ACCESS_KEY: "S3RVER" };
      const child = start({ ...keys, AWS_ENDPOINT_URL: s3.endpoint });
      expect((await end(child)).code).toBe(3); // a line failed
      expect(received).toHaveLength(1);
      expectWhole(received[0] as Received, content);
      const lines = readFileSync(join(folder, "out.jsonl"), "utf8");
      expect(lines).toContain('"code":"media_unreadable"');
      expect(lines).toContain("s3://one/a/2.png cannot be read: it does not exist");
    } finally {
      await s3.close();
    }
  });

  it("are sent whole after a kill and the same command", async () => {
    const content = contentOf(2 * MIB + 1, 7);
    for (let line = 1; line <= 40; line += 1) writeFileSync(join(folder, "pictures", `${line}.png`), content);
    write(40);
    const child = start();
    const closed = end(child);
    await until(() => received.length >= 5);
    child.kill("SIGKILL");
    await closed;
    expect((await end(start())).code).toBe(0);
    expect(answered().toSorted()).toEqual(
      Array.from({ length: 40 }, (_, index) => `k${index + 1}`).toSorted(),
    );
    for (const one of received) expectWhole(one, content);
  }, 120_000);
});
