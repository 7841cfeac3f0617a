/**
 * What users send stays where it belongs (fault 95): a real process is sent texts, keys, names and headers that are
 * canaries, and its output, log, metrics, errors and data folder are searched for them.
 */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadSqlite, type SqliteValue } from "../../src/store/sqlite_database.ts";
import { commandIn } from "../cli/command.ts";
import { textsBelow } from "../files_below.ts";
import { type HeardService, startHeard } from "../heard_service.ts";

const CANARY = "canary";
/** Of what is sent, so much is refused. */
const REFUSED = 13;
const TEXT = `${CANARY}-prompt`;

let dir: string;
let provider: Server;
let service: HeardService;
let key: string;
let webhookSecret = "";
/** Bodies of all that was refused. */
const refusals: string[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "perigee-texts-"));
  provider = await startProvider();
  const { port } = provider.address() as AddressInfo;
  writeFileSync(
    join(dir, "config.json"),
    JSON.stringify({
      providers: { leaky: { baseUrl: `http://127.0.0.1:${port}/v1`, key: `${CANARY}-provider-key` } },
    }),
  );
  const made = await commandIn(dir, ["keys", "create", "--project", "red", "--json", "--data", "state"]);
  key = (JSON.parse(made.stdout) as { key: string }).key;
  service = await startHeard(dir, ["--data", "state", "--config", "config.json"]);
}, 60_000);

afterAll(() => {
  service.child.kill("SIGKILL");
  provider.close();
  rmSync(dir, { recursive: true, force: true });
});

/** A provider whose errors repeat what it was sent. */
async function startProvider(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      response.writeHead(400, { "content-type": "application/json", "x-leak": TEXT });
      response.end(
        JSON.stringify({ error: { message: `cannot read ${body}`, code: "invalid_request_error" } }),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const isForm = body instanceof FormData;
  const response = await fetch(service.url + path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      "user-agent": `${CANARY}-agent`,
      "x-custom": `${CANARY}-header`,
      cookie: `session=${CANARY}-cookie`,
      ...(isForm ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isForm || typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) refusals.push(`${method} ${response.status} ${text}`);
  return { status: response.status, text };
}

function upload(lines: string, field = "file"): FormData {
  const form = new FormData();
  form.append(field, new Blob([lines]), `${CANARY}-form.jsonl`);
  return form;
}

/** Everything that a user can get wrong or right, with a canary in it. */
async function sendAll(): Promise<void> {
  const line = (model: string, index: number): string =>
    `${JSON.stringify({ key: `k${index}`, request: { model, contents: [{ parts: [{ text: TEXT }] }] } })}\n`;
  for (const model of ["echo:test", "leaky:test"]) {
    await send("POST", "/v0/infer/", [{ model, input: TEXT }]);
    await send("POST", `/v0/infer/?secret=${CANARY}-query`, [{ model, input: TEXT, sla: 60 }]);
    const stored = await send(
      "PUT",
      `/v0/files/${CANARY}-name.jsonl`,
      upload(line(model, 1) + line(model, 2)),
    );
    const { file_id: fileId } = JSON.parse(stored.text) as { file_id: string };
    const task = await send("POST", "/v0/infer/", [{ file_id: fileId, sla: 60 }], {
      "output-format": "jsonl",
    });
    const { task_id: taskId } = JSON.parse(task.text) as { task_id: string };
    await expect
      .poll(async () => JSON.parse((await send("GET", `/v0/infer/task/${taskId}`)).text).status, {
        timeout: 60_000,
      })
      .toBe("completed");
    await send("GET", `/v0/files/output/${taskId}`);
  }
  const hook = await send("POST", "/v0/webhooks", { url: "https://hooks.example.org/" });
  webhookSecret = (JSON.parse(hook.text) as { secret: string }).secret;
  await send("POST", "/v0/webhooks", { url: `ftp://${CANARY}.example.org/` });
  const again = { "idempotency-key": `${CANARY}-idempotency` };
  await send("POST", "/v0/infer/", [{ model: "echo:test", input: TEXT, sla: 60 }], again);
  await send("POST", "/v0/infer/", `[{"model": "echo:test", "input": "${TEXT}`);
  await send("POST", "/v0/infer/", [{ model: "echo:test", input: TEXT, sla: `${CANARY}-sla` }]);
  await send("POST", "/v0/infer/", [{ model: "echo:test", input: { text: TEXT } }]);
  await send("POST", "/v0/infer/", TEXT, { "content-type": "text/plain" });
  await send("PUT", "/v0/files/a.jsonl", upload(line("echo:test", 1), `${CANARY}-field`));
  await send("PUT", "/v0/files/b.jsonl", upload(`${line("echo:test", 1)}${line("echo:test", 1)}`));
  await send("GET", `/v0/infer/task/${CANARY}-id`);
  await send("GET", `/${CANARY}-path`);
  await send("GET", "/v0/infer/tasks", undefined, { authorization: `Bearer pgk_live_${CANARY}` });
  await send("GET", `/v0/operator/events?after=${CANARY}`);
}

/** Files of the folder without payload, by their path. */
function otherFiles(): [path: string, text: string][] {
  const state = join(dir, "state");
  return textsBelow(state).filter(
    ([path]) => !/\/(files|lots|tasks)\/|journal\.sqlite/.test(path.slice(state.length)),
  );
}

/** Every value of the store but payloads. */
/** Where the work log keeps the texts of users. */
const TEXTS = new Set(["log_tasks.request", "log_answers.text"]);

async function storedValues(): Promise<string[]> {
  const open = await loadSqlite();
  const database = open(join(dir, "state", "journal.sqlite"));
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const values = (tables as { name: string }[]).flatMap(({ name }) =>
    (database.prepare(`SELECT * FROM "${name}"`).all() as Record<string, SqliteValue>[]).flatMap((row) =>
      Object.entries(row).map(([column, value]) => {
        const text = value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value);
        const isText = column === "payload" || TEXTS.has(`${name}.${column}`);
        return isText ? "" : `${name}.${column} ${text}`;
      }),
    ),
  );
  database.close();
  return values;
}

describe("a service that was sent canaries", () => {
  it("holds them in the texts of users, and nowhere else", async () => {
    await sendAll();
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    service.child.kill("SIGTERM");
    await service.ended;
    expect(webhookSecret).toMatch(/^whsec_/);
    const isFound = (text: string): boolean =>
      text.includes(CANARY) || text.includes(key) || text.includes(webhookSecret);
    expect(refusals).toHaveLength(REFUSED);
    expect(refusals.filter(isFound)).toEqual([]);
    expect(service.stdout()).toBe(`{"url":"${service.url}"}\n`);
    expect(service.stderr().split("\n").filter(isFound)).toEqual([]);
    expect(
      service
        .stderr()
        .split("\n")
        .filter((line) => line.includes('"event":"request"')).length,
    ).toBeGreaterThan(15);
    expect(metrics).toContain('perigee_items_total{outcome="invalid_request"}');
    expect(isFound(metrics)).toBe(false);
    expect(otherFiles().length).toBeGreaterThan(2);
    expect(otherFiles().filter(([, text]) => isFound(text))).toEqual([]);
    const values = await storedValues();
    const named = values.filter((value) => value.includes(`${CANARY}-name.jsonl`));
    expect(named.every((value) => value.includes('"name"'))).toBe(true); // a file's name is kept to be shown
    expect(values.length).toBeGreaterThan(20);
    const others = values.map((value) => value.replaceAll(`${CANARY}-name.jsonl`, ""));
    expect(others.filter(isFound)).toEqual([]);
  });
});
