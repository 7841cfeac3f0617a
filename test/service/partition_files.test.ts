/** The whole service whose store and files are those of a partition: another process, with nothing of its own, has all of it. */
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createPerigeeService } from "../../src/service/index.ts";
import { openObjects } from "../../src/store/objects/open_objects.ts";
import { openPartitionDisk } from "../../src/store/objects/partition_disk.ts";
import { openPartitionReader } from "../../src/store/objects/partition_reader.ts";
import { connectPg } from "../../src/store/postgres/pg_session.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { fakeVerifier } from "./world.ts";

const ROOT = "/perigee/1";
const headers = { authorization: "Bearer key-one" };
/** Enough for objects: the lines have 5 MB. */
const LINES = 100;
const LINE_CHARS = 50_000;

describeCounterpart("PostgreSQL under the service", POSTGRES, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server?.remove());

  async function started(url: string) {
    const store = await openPostgresStore({ url });
    const objects = await openObjects({ url });
    const disk = await openPartitionDisk({ store, objects, root: ROOT });
    const service = await createPerigeeService({
      dataDir: ROOT,
      store,
      disk,
      env: {},
      verifier: fakeVerifier,
    });
    const base = await service.listen({ port: 0 });
    const call = (method: string, path: string, given: RequestInit = {}): Promise<Response> =>
      fetch(path.startsWith("http") ? path : base + path, {
        method,
        ...given,
        headers: { ...headers, ...given.headers },
      });
    const close = async (): Promise<void> => {
      await service.close();
      await disk.close();
      await objects.close();
    };
    return { call, close };
  }

  async function counted(url: string): Promise<unknown> {
    const session = await connectPg(url);
    const { rows } = await session.query(
      `SELECT (SELECT count(*) FROM perigee_files WHERE path LIKE 'files/%' OR path LIKE 'lots/%') AS files,
         (SELECT count(DISTINCT name) FROM perigee_objects) AS objects`,
    );
    session.end();
    return rows[0];
  }

  it("keeps uploads and outputs in the partition, serves them after a change of owner, and deletes them", {
    timeout: 90_000,
  }, async () => {
    const url = await server.freshUrl();
    const first = await started(url);
    const body = new FormData();
    const lines = Array.from({ length: LINES }, (_, index) =>
      JSON.stringify({
        key: `k${index}`,
        model: "echo:test",
        input: `${index} ${"ab ".repeat(LINE_CHARS / 3)}`,
      }),
    );
    body.append("file", new Blob([`${lines.join("\n")}\n`]));
    const uploaded = await first.call("PUT", "/v0/files/in.jsonl", { body });
    const { file_id } = (await uploaded.json()) as { readonly file_id: string };
    const quoted = await first.call("POST", "/v0/quote", {
      headers: { "content-type": "application/json" },
      body: JSON.stringify([{ file_id, sla: 60 }]),
    });
    expect(await quoted.json()).toMatchObject({ items: LINES });
    const posted = await first.call("POST", "/v0/infer/", {
      headers: { "content-type": "application/json", "output-format": "jsonl" },
      body: JSON.stringify([{ file_id, sla: 60 }]),
    });
    const task = (await posted.json()) as { readonly task_id: string; readonly output_url: string };
    const path = new URL(task.output_url).pathname;
    await expect
      .poll(
        async () =>
          ((await (await first.call("GET", `/v0/infer/task/${task.task_id}`)).json()) as { status: string })
            .status,
        {
          timeout: 60_000,
        },
      )
      .toBe("completed");
    const whole = await first.call("GET", path);
    const text = await whole.text();
    expect(text.trimEnd().split("\n")).toHaveLength(LINES);
    const etag = whole.headers.get("etag") ?? "";
    await first.close();

    const second = await started(url);
    const again = await second.call("GET", path);
    expect(again.headers.get("etag")).toBe(etag);
    expect(await again.text()).toBe(text);
    const part = await second.call("GET", path, { headers: { range: "bytes=1000-2999", "if-range": etag } });
    expect(part.status).toBe(206);
    expect(await part.text()).toBe(text.slice(1_000, 3_000));
    expect((await second.call("GET", path, { headers: { "if-none-match": etag } })).status).toBe(304);
    expect(await counted(url)).not.toEqual({ files: 0, objects: 0 });

    const objects = await openObjects({ url });
    const reader = await openPartitionReader({ url, part: 1, objects, root: ROOT });
    const stored = await reader.open(`${ROOT}/files/${file_id}`, "read");
    const into = Buffer.alloc(20);
    await stored.read(into, 0);
    expect(into.toString()).toBe(lines[0]?.slice(0, 20));
    await expect(reader.open(`${ROOT}/files/${file_id}`, "write")).rejects.toMatchObject({ code: "EROFS" });
    await stored.close();
    reader.close();
    await objects.close();

    for (const gone of [`/v0/infer/task/${task.task_id}`, `/v0/files/${file_id}`])
      expect((await second.call("DELETE", gone)).status).toBeLessThan(300);
    await expect.poll(() => counted(url), { timeout: 10_000 }).toEqual({ files: 0, objects: 0 });
    await second.close();
    expect(existsSync(ROOT)).toBe(false); // nothing is in the folder of a machine
  });
});
