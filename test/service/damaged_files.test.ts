/** Files whose bytes changed under the service, and a disk without space, as callers see them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { type Disk, systemDisk } from "../../src/disk.ts";
import { PerigeeError } from "../../src/errors.ts";
import { createPerigeeService } from "../../src/service/index.ts";

const SCOPES = new Set(["infer:read", "infer:write", "files:read", "files:write"] as const);

async function service(disk: Disk = systemDisk, onFault?: (error: unknown, requestId: string) => void) {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-damaged-"));
  const made = await createPerigeeService({
    dataDir,
    env: {},
    threads: 1,
    disk,
    ...(onFault === undefined ? {} : { onFault }),
    verifier: { verify: () => ({ keyId: "k1", project: "red", scopes: SCOPES, isBeta: false }) },
  });
  onTestFinished(async () => {
    await made.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const base = await made.listen({ port: 0 });
  const call = async (
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; body: never }> => {
    const isForm = body instanceof FormData;
    const response = await fetch(new URL(path, base), {
      method,
      headers: { authorization: "Bearer k", ...(isForm ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: (text.startsWith("{") ? JSON.parse(text) : text) as never };
  };
  return { dataDir, base, call };
}

it("an upload whose bytes have changed is neither served nor sent, and each answer names it", async () => {
  const { dataDir, call } = await service();
  const line = { key: "a", request: { model: "echo:test", contents: [{ parts: [{ text: "hello" }] }] } };
  const form = new FormData();
  form.append("file", new Blob([`${JSON.stringify(line)}\n`]), "in.jsonl");
  const stored: { body: { file_id: string } } = await call("PUT", "/v0/files/in.jsonl", form);
  const id = stored.body.file_id;
  const folder = join(dataDir, "files");
  const path = join(folder, readdirSync(folder)[0] ?? "");
  writeFileSync(path, readFileSync(path, "utf8").replace("hello", "jello"));
  const damaged = {
    status: 410,
    body: { error: { code: "file_damaged", message: expect.stringContaining(id) } },
  };
  expect(await call("GET", `/v0/files/${id}/content`)).toMatchObject(damaged);
  expect(await call("POST", "/v0/infer/", [{ file_id: id }])).toMatchObject(damaged);
  expect(await call("POST", "/v0/quote", [{ file_id: id }])).toMatchObject(damaged);
  const document = (await call("GET", "/openapi.json")).body as {
    paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
  };
  const documented = Object.entries(document.paths).flatMap(([at, methods]) =>
    Object.entries(methods).flatMap(([method, { responses }]) =>
      responses["410"] === undefined ? [] : `${method} ${at}`,
    ),
  );
  expect(documented).toEqual(
    expect.arrayContaining([
      "get /v0/files/{file_id}/content",
      "get /v1/files/{id}/content",
      "post /v0/infer/",
      "post /v0/quote",
    ]),
  );
});

it("reports why a download broke off whose status was sent before, with the id of its request", async () => {
  const faults: unknown[] = [];
  let passes = Number.NEGATIVE_INFINITY;
  const disk: Disk = {
    ...systemDisk,
    open: async (path, mode) => {
      const file = await systemDisk.open(path, mode);
      const read = file.read.bind(file);
      file.read = async (into, position) => {
        if (position === 0) passes += 1;
        if (passes > 1 && position >= 1 << 20) throw new PerigeeError("store_damaged", "no such block"); // the first one checks it
        return read(into, position);
      };
      return file;
    },
  };
  const { base, call } = await service(disk, (error, id) => faults.push([(error as Error).message, id]));
  const form = new FormData();
  form.append("file", new Blob([Buffer.alloc(3 << 20, "text ")]), "text.bin");
  const stored: { body: { file_id: string } } = await call("PUT", "/v0/files/text.bin", form);
  passes = 0;
  const response = await fetch(new URL(`/v0/files/${stored.body.file_id}/content`, base), {
    headers: { authorization: "Bearer k" },
  });
  expect(response.status).toBe(200);
  await expect(response.arrayBuffer()).rejects.toThrow();
  expect(faults).toEqual([["no such block", response.headers.get("x-request-id")]]);
});

it("is not ready while its disk is full, and ready when it is not", async () => {
  let freeBytes = 0;
  const { call } = await service({ ...systemDisk, freeBytes: async () => freeBytes });
  expect(await call("GET", "/readyz")).toMatchObject({
    status: 503,
    body: {
      error: { code: "disk_full", message: "no space is left on the disk of the data folder; free some" },
    },
  });
  expect((await call("GET", "/healthz")).status).toBe(200);
  freeBytes = 1e9;
  expect((await call("GET", "/readyz")).status).toBe(200);
});
