/**
 * The satellites of the interface, only from its document: each row of the catalogue (2.10) and of the kinds (2.11) and the
 * declaration of a cluster (2.9), over the whole service and HTTP, against receivers on this machine.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../free_port.ts";
import { openMailServer } from "../satellites/builtin/mail_server.ts";
import { openReceiver } from "../satellites/builtin/receiver.ts";
import { hostShout, SHOUTED, shoutAt } from "./hosted_satellite.ts";
import { openWhole, type Whole } from "./whole.ts";

const CATALOGUE = [
  "deepseek-r1-distrill-llama-70b",
  "get-files",
  "parse-with-docling",
  "call-webhook",
  "forward-logs",
  "move-file",
  "send-alert",
  "send-email",
];
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const YAML = { "content-type": "application/yaml" };

const root = mkdtempSync(join(tmpdir(), "perigee-root-"));
const store = { type: "fs", root: "inbox" };
let mailPort: number;
let whole: Whole;
let hostUrl: string;

beforeAll(async () => {
  mailPort = await freePort();
  whole = await openWhole({ satellites: { roots: { inbox: root }, mailPorts: [mailPort] } });
  hostUrl = await hostShout(whole.call, [{ project: "own", key: "own" }]);
});
afterAll(async () => {
  await whole.close();
  rmSync(root, { recursive: true, force: true });
});

interface Asked {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of many shapes
  readonly json: any;
}

async function ask(method: string, path: string, body?: unknown, key = "own"): Promise<Asked> {
  const headers = typeof body === "string" ? YAML : {};
  const { status, text } = await whole.call(method, path, { body, key, headers });
  return { status, json: JSON.parse(text) };
}

/** Asks until it is no longer pending. */
async function ended(path: string): Promise<Asked> {
  for (;;) {
    const answer = await ask("GET", path);
    if (answer.status !== 200 || answer.json.status !== "pending") return answer;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Runs a satellite of the catalogue, by both endpoints, and gives its output. */
async function run(name: string, input: object, config: object = {}) {
  const path = `/v1/satellites/perigee/${name}/`;
  const { status, json } = await ask("POST", path, { input, config, sla: "1h" });
  expect([status, json.status, json.output, json.error]).toEqual([200, "pending", null, null]);
  const { json: execution } = await ended(`${path}${json.execution_id}/`);
  expect([execution.status, execution.error]).toEqual(["completed", null]);
  return execution.output;
}

describe("2.10 the catalogue", () => {
  it("is listed whole, in the vendor's namespace, and each is described with its schemas", async () => {
    const { json } = await ask("GET", "/v1/satellites/perigee/");
    const names = json.satellites.map((one: { satellite: string }) => one.satellite).sort();
    expect(names).toEqual(CATALOGUE.map((name) => `satellite/perigee/${name}`).sort());
    for (const name of CATALOGUE) {
      const { status, json } = await ask("GET", `/v1/satellites/perigee/${name}/`);
      expect([status, json.kind, json.state]).toEqual([200, "vendor", "approved"]);
      expect(json.description).not.toBe("");
      for (const schema of [json.input_schema, json.config_schema]) expect(schema).toHaveProperty("$schema");
    }
  });

  it("runs deepseek-r1-distrill-llama-70b: batch inference", async () => {
    const settings = { model: "echo:m", max_tokens: 100, temperature: 0.5 };
    const output = await run("deepseek-r1-distrill-llama-70b", { prompt: "Explain tides." }, settings);
    expect(output).toMatchObject({
      response: expect.any(String),
      usage: { input_tokens: expect.any(Number) },
    });
    const many = await run("deepseek-r1-distrill-llama-70b", { prompt: ["One?", "Two?"] }, settings);
    expect(many.responses).toHaveLength(2);
  });

  it("runs get-files: from storage into the project's files", async () => {
    writeFileSync(join(root, "note.txt"), "read me");
    const { files, count } = await run("get-files", { glob: "note.txt" }, { store });
    expect([count, files.length]).toEqual([1, 1]);
    const { text } = await whole.call("GET", `/v0/files/${files[0].file_id}/content`);
    expect(text).toBe("read me");
  });

  it("runs parse-with-docling: documents as Markdown, without any server", async () => {
    writeFileSync(join(root, "page.html"), "<h1>Tides</h1><p>The <b>moon</b> pulls.</p>");
    const { files } = await run("get-files", { glob: "page.html" }, { store });
    const output = await run("parse-with-docling", { file: files[0] });
    expect(output.documents ?? [output]).toMatchObject([
      { engine: "embedded", text: expect.stringContaining("The **moon** pulls.") },
    ]);
  });

  it("runs move-file: within storage", async () => {
    writeFileSync(join(root, "old.txt"), "moved");
    const output = await run("move-file", { source: "old.txt", destination: "done/new.txt" }, { store });
    expect(output).toMatchObject({ outcome: "moved", path: "done/new.txt", bytes: 5 });
    expect(existsSync(join(root, "old.txt"))).toBe(false);
    expect(readFileSync(join(root, "done/new.txt"), "utf8")).toBe("moved");
  });

  it.each(["POST", "PUT", "PATCH", "GET", "DELETE", "OPTIONS"])("runs call-webhook: %s", async (method) => {
    const { url, received } = await openReceiver({ status: 202, headers: {}, body: "taken" });
    const body = ["POST", "PUT", "PATCH"].includes(method) ? { body: { json: { said: "{{what}}" } } } : {};
    const output = await run(
      "call-webhook",
      { what: "hi" },
      { url: `${url}/in`, method, answer: {}, ...body },
    );
    expect(output).toMatchObject({ status: 202, answer: { text: "taken", is_whole: true } });
    expect(received).toHaveLength(1);
    expect(received[0]).toMatchObject({ method, url: "/in" });
    expect(received[0]?.body).toBe("body" in body ? '{"said":"hi"}' : "");
  });

  it("runs forward-logs: to a provider of log management", async () => {
    const { url, received } = await openReceiver({ status: 204 });
    const entries = [{ message: "it failed", level: "error" }, { message: "it went on" }];
    const output = await run("forward-logs", { entries }, { receiver: "loki", url });
    expect(output).toMatchObject({ receiver: "loki", entries: 2 });
    expect(received[0]?.url).toBe("/loki/api/v1/push");
    expect(received.map(({ body }) => body).join()).toContain("it failed");
  });

  it.each([
    ["slack", { url: "" }],
    ["webhook", { url: "" }],
    ["pagerduty", { base_url: "", routing_key: "0123456789abcdef0123456789abcdef" }],
  ])("runs send-alert: %s", async (receiver, fields: Record<string, string>) => {
    const { url, received } = await openReceiver({ status: 202, body: "ok" });
    const config = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value || url]));
    await run("send-alert", { title: "It failed", severity: "critical" }, { receiver, ...config });
    expect(received).toHaveLength(1);
    expect(received[0]?.body).toContain("It failed");
  });

  it("runs send-email: by SMTP and by a provider", async () => {
    const mail = await openMailServer({ port: mailPort, hideSTARTTLS: true });
    const message = { to: "b@example.org", subject: "Done", text: "All of it." };
    const smtp = { provider: "smtp", host: "127.0.0.1", port: mailPort, security: "none" };
    const output = await run("send-email", message, { ...smtp, from: "a@example.org" });
    expect(output).toMatchObject({ provider: "smtp", accepted: ["b@example.org"], rejected: [] });
    expect(mail.taken).toMatchObject([{ from: "a@example.org", to: ["b@example.org"] }]);
    expect(mail.taken[0]?.raw).toContain("All of it.");
    const { url, received } = await openReceiver({ status: 200, body: '{"id":"m1"}' });
    const resend = { provider: "resend", api_key: "re_1", base_url: url, from: "a@example.org" };
    expect(await run("send-email", message, resend)).toMatchObject({ provider: "resend" });
    expect(received[0]?.body).toContain("All of it.");
  });
});

describe("2.9 a cluster", () => {
  const declaration = `sla: 24h
cluster:
  satellites:
    - name: DeepSeek
      uses: satellite/perigee/deepseek-r1-distrill-llama-70b
      identifier: deepseek
      config:
        model: echo:m
        max_tokens: 100
        temperature: 0.5
      input:
        prompt: Explain tides.
    - name: Store
      uses: satellite/own/shout
      identifier: shout
      input:
        text: "\${{ deepseek.output.response }}"
`;

  it.each(["/v1/clusters/", "/v1/clusters"])("declared in YAML runs to its end: %s", async (path) => {
    const { status, json } = await ask("POST", path, declaration);
    expect([status, json.status, json.sla]).toEqual([200, "pending", "24h"]);
    expect(json.cluster_id).toMatch(UUID);
    const one = `/v1/clusters/${json.cluster_id}`;
    const { json: run } = await ended(`${one}/`);
    expect(run).toMatchObject({ status: "completed", error: null, cluster_id: json.cluster_id });
    expect(run.members).toMatchObject([
      {
        ...{ name: "DeepSeek", identifier: "deepseek", status: "completed", retries: 0 },
        uses: "satellite/perigee/deepseek-r1-distrill-llama-70b",
      },
      { name: "Store", identifier: "shout", status: "completed", uses: "satellite/own/shout" },
    ]);
    const [first, second] = run.members;
    expect(second.output.said).toBe(`${first.output.response.toUpperCase()}!`);
    expect((await ask("GET", one)).json).toEqual(run);
    const execution = `/v1/satellites/own/shout/${second.execution_id}/`;
    expect((await ask("GET", execution)).json).toMatchObject({
      output: second.output,
      sla: expect.any(String),
    });
  });

  it("declared as JSON is the same", async () => {
    const member = { name: "Shout", uses: "satellite/own/shout", identifier: "shout", ...SHOUTED };
    const { json } = await ask("POST", "/v1/clusters/", {
      declaration: { sla: "90s", cluster: { satellites: [member] } },
    });
    const { json: run } = await ended(`/v1/clusters/${json.cluster_id}/`);
    expect(run.members[0].output).toEqual({ said: "HI!" });
  });

  it.each([
    ["an invalid sla", declaration.replace("24h", "1 day")],
    ["no identifier", declaration.replace("identifier: deepseek", "")],
    ["an identifier that is unknown", declaration.replace("deepseek.output", "other.output")],
    ["a satellite that does not exist", declaration.replace("own/shout", "own/none")],
    ["a satellite of another namespace", declaration.replace("own/shout", "other/shout")],
    ["input that is not as the satellite's schema says", declaration.replace("prompt:", "promt:")],
  ])("with %s is refused, with the place", async (_what, text) => {
    const { status, json } = await ask("POST", "/v1/clusters/", text);
    expect([status, json.error.code]).toEqual([422, "invalid_request"]);
    expect(json.error.issues[0]).toMatchObject({ line: expect.any(Number), column: expect.any(Number) });
    expect(json.error.issues[0].message).not.toBe("");
  });
});

describe("2.11 who may use", () => {
  const path = (name: string): string => `/v1/satellites/own/${name}/`;
  const mayRun = async (name: string, key: string, body: object = SHOUTED): Promise<number> =>
    (await ask("POST", name.includes("/") ? `/v1/satellites/${name}/` : path(name), body, key)).status;

  it("vendor satellites: private-beta users", async () => {
    const body = { input: { prompt: "x" } };
    const vendor = "perigee/deepseek-r1-distrill-llama-70b";
    expect(await mayRun(vendor, "own", body)).toBe(200);
    expect(await mayRun(vendor, "other", body)).toBe(200);
    expect(await mayRun(vendor, "plain", body)).toBe(403);
  });

  it("community satellites: the community after verification and approval, its project before", async () => {
    expect([await mayRun("shout", "plain"), await mayRun("shout", "other")]).toEqual([200, 404]);
    expect((await ask("POST", `${path("shout")}verify/`, undefined, "operator")).json.state).toBe("verified");
    expect(await mayRun("shout", "other")).toBe(404);
    expect((await ask("POST", `${path("shout")}approve/`, undefined, "operator")).json.state).toBe(
      "approved",
    );
    expect(await mayRun("shout", "other")).toBe(200);
    await ask("POST", `${path("shout")}disable/`, undefined, "operator");
    expect([await mayRun("shout", "own"), await mayRun("shout", "other")]).toEqual([404, 404]);
    await ask("POST", `${path("shout")}enable/`, undefined, "operator");
  });

  it("custom satellites: the same namespace, without approval", async () => {
    const custom = { ...shoutAt(hostUrl), kind: "custom" };
    expect((await ask("DELETE", path("shout"))).status).toBe(200);
    const { status, json } = await ask("PUT", path("shout"), custom);
    expect([status, json.kind]).toEqual([200, "custom"]);
    expect([await mayRun("shout", "plain"), await mayRun("shout", "other")]).toEqual([200, 404]);
    const member = { name: "Shout", uses: "satellite/own/shout", identifier: "shout", ...SHOUTED };
    const body = { declaration: { sla: "90s", cluster: { satellites: [member] } } };
    expect((await ask("POST", "/v1/clusters/", body, "plain")).status).toBe(200);
    expect((await ask("POST", "/v1/clusters/", body, "other")).status).toBe(422);
  });

  it("configured satellites: the same namespace, made by an API call", async () => {
    const { url, received } = await openReceiver();
    const base = "satellite/perigee/call-webhook";
    await ask("PUT", "/v1/secrets/hook/", { value: "hidden-token" });
    const config = { url, headers: { authorization: "secret://hook" } };
    const made = await ask("PUT", path("tell"), { kind: "configured", base, config });
    expect([made.status, made.json.kind]).toEqual([200, "configured"]);
    expect(JSON.stringify(made.json)).not.toContain("secret://hook");
    const { json } = await ask("POST", path("tell"), { input: { what: "hi" } });
    expect((await ended(`${path("tell")}${json.execution_id}/`)).json.status).toBe("completed");
    expect(received[0]?.headers.authorization).toBe("hidden-token");
    expect(await mayRun("tell", "other", { input: {} })).toBe(404);
    expect(await mayRun("tell", "plain", { input: {} })).toBe(403); // it is based on a vendor satellite
  });
});
