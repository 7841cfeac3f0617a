/**
 * Fault 102: secrets stay secret. A real service is given canaries as secrets, satellites use them and succeed, are refused by
 * servers that repeat what they were sent, and fail before anything is sent; then everything that left the process and
 * everything on its disk is searched for them.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { MAIN, SDK } from "../built.ts";
import { textsBelow } from "../files_below.ts";
import { freePort } from "../free_port.ts";
import { type HeardService, startHeard } from "../heard_service.ts";
import { CERTIFICATE, type MailServer, openMailServer } from "../satellites/builtin/mail_server.ts";
import { openReceiver, type Receiver } from "../satellites/builtin/receiver.ts";

/** A satellite of the project's own that says what it was given wherever it can. */
const LEAKY = `
  import { defineSatellite, SatelliteError } from ${JSON.stringify(SDK)};
  import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
  export const leaky = defineSatellite({
    name: "leaky",
    description: "Says everything.",
    input: z.strictObject({ mode: z.string(), text: z.string(), login: z.string().meta({ "x-secret": true }) }),
    config: z.strictObject({ token: z.string() }),
    attemptsMax: 1,
    run: async ({ input, config, log, notes, progress }) => {
      log("error", "given " + config.token + " and " + JSON.stringify(input));
      await notes.set("given", { [config.token]: config.token });
      progress(1, 2);
      if (input.mode === "refuse") throw new SatelliteError("permanent", "leak", "no " + config.token + input.login + input.text);
      if (input.mode === "throw") throw new Error("Bearer " + config.token, { cause: new Error(input.login) });
      return { [config.token]: [config.token, Buffer.from("u:" + config.token).toString("base64")], input };
    },
  });
`;
const run = promisify(execFile);

/** By name; each is in the value in the clear, and in what is made of it. */
const SECRETS: Readonly<Record<string, string>> = {
  "mail-password": 'canary1 "quoted" ümläut & more',
  "api-token": "canary2/+=token%with+signs",
  "hook-url": "http://10.1.2.3/canary3/secret/path",
  "no-url": "canary4 is no url",
  "set-by-hand": "canary5-from-the-command-line",
};

let dir: string;
let service: HeardService;
let host: ChildProcess;
/** What the host and the engine sign their requests with. */
let hostSecret = "";
let key: string;
/** All that the service has answered. */
const answers: string[] = [];
/** What the host of the satellite has said to its operator. */
let hostSaid = "";

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "perigee-canaries-"));
  const made = await perigee(["keys", "create", "--project", "red", "--beta", "--json"]);
  key = (JSON.parse(made) as { key: string }).key;
  await perigee(["secrets", "set", "set-by-hand", "--project", "red", "--from-env", "GIVEN"], {
    GIVEN: SECRETS["set-by-hand"] ?? "",
  });
}, 60_000);

afterAll(() => {
  for (const one of [service.child, host]) one.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

async function perigee(words: string[], env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: dir, env: { PATH: process.env["PATH"], ...env } };
  const { stdout: told, stderr: said } = await run(process.execPath, [MAIN, ...words], options);
  answers.push(told.replace(key ?? "", ""), said);
  return told;
}

/** Hosts the satellite, and registers it in the folder. */
async function hostLeaky(): Promise<void> {
  writeFileSync(join(dir, "leaky.mjs"), LEAKY);
  const env = { PATH: process.env["PATH"], PERIGEE_EGRESS_ALLOW: "127.0.0.0/8" };
  const port = await freePort();
  const register = ["satellites", "register", "leaky.mjs", `http://127.0.0.1:${port}/`, "--project", "red"];
  const told = await perigee([...register, "--json"], { PERIGEE_EGRESS_ALLOW: "127.0.0.0/8" });
  answers.pop();
  answers.pop(); // shown this once
  hostSecret = (JSON.parse(told) as { satellites: { secret: string }[] }).satellites[0]?.secret ?? "";
  const words = [MAIN, "orbit", "serve", "leaky.mjs", "--port", String(port)];
  host = spawn(process.execPath, words, { cwd: dir, env: { ...env, PERIGEE_ORBIT_SECRETS: hostSecret } });
  host.stderr?.on("data", (chunk) => {
    hostSaid += String(chunk);
  });
  await new Promise((resolve) => host.stdout?.once("data", resolve));
}

async function serve(mail: MailServer): Promise<void> {
  const config = { egressAllow: ["127.0.0.0/8"], satellites: { mailPorts: [mail.port] } };
  writeFileSync(join(dir, "config.json"), JSON.stringify(config));
  service = await startHeard(dir, ["--data", "perigee-data", "--config", "config.json"]);
}

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
async function call(method: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      authorization: path.startsWith("/v1/") ? key : `Bearer ${key}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  answers.push(`${method} ${path} ${response.status} ${JSON.stringify([...response.headers])} ${text}`);
  return /^application\/json\b/.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : {};
}

/** Runs a satellite to its end. */
async function execute(satellite: string, input: object, config: object): Promise<unknown> {
  const path = `/v1/satellites/${satellite.includes("/") ? satellite : `perigee/${satellite}`}/`;
  const { execution_id: id } = await call("POST", path, { input, config, sla: "1h" });
  expect(id, answers.at(-1)).toBeDefined();
  return await vi.waitFor(
    async () => {
      const view = await call("GET", `${path}${id}`);
      expect(view.status).not.toBe("pending");
      return view;
    },
    { timeout: 60_000, interval: 50 },
  );
}

/** Repeats what it is sent, as careless servers do: as it is, in JSON, as a URL, in base64. */
async function openEcho(): Promise<Receiver> {
  return await openReceiver((request, response, { body }) => {
    const said = [request.headers.authorization, request.headers["x-token"], request.url, body].join(" ");
    const forms = [
      said,
      JSON.stringify(said),
      encodeURIComponent(said),
      Buffer.from(said).toString("base64"),
    ];
    response.writeHead(request.url?.includes("fail") === true ? 400 : 200, {
      "content-type": "text/plain",
      "x-request-id": encodeURIComponent(said),
    });
    response.end(JSON.stringify(forms));
  });
}

describe("fault 102: secrets of satellites", () => {
  it("102: are used, and are nowhere else", async () => {
    const mail = await openMailServer({
      onAuth: ({ username, password }, _session, done) => {
        if (username === "good") done(null, { user: username });
        else done(Object.assign(new Error(`5.7.8 ${password} is wrong`), { responseCode: 535 }));
      },
    });
    const echo = await openEcho();
    await hostLeaky();
    await serve(mail);
    for (const [name, value] of Object.entries(SECRETS))
      if (name !== "set-by-hand") await call("PUT", `/v1/secrets/${name}/`, { value });
    await call("PUT", "/v1/secrets/replaced", { value: `${SECRETS["api-token"]}-before` });
    await call("PUT", "/v1/secrets/replaced", { value: `${SECRETS["api-token"]}-after` });
    await call("DELETE", "/v1/secrets/replaced");

    await useMail(mail);
    await useWebhooks(echo);
    await useLeaky();
    await usePrompts();
    expect(await execute("call-webhook", {}, { url: "secret://missing" })).toMatchObject({
      error: { code: "secret_missing" },
    });
    const declaration = `sla: 1h
cluster:
  satellites:
    - name: Hook
      uses: satellite/perigee/call-webhook
      identifier: hook
      input: {}
      config:
        url: ${echo.url}/cluster
        headers: {x-token: "\${{ secrets.api-token }}"}
        answer: {}
`;
    const { cluster_id: id } = await call("POST", "/v1/clusters/", { declaration, input: {} });
    const isDone = async (): Promise<void> =>
      expect(await call("GET", `/v1/clusters/${id}`)).toMatchObject({ status: "completed" });
    await vi.waitFor(isDone, { timeout: 60_000, interval: 50 });
    expect(echo.received.at(-1)?.headers["x-token"]).toBe(SECRETS["api-token"]);
    for (const path of [
      "/v1/executions",
      "/v1/clusters",
      "/v1/secrets",
      "/v1/satellites/perigee/call-webhook",
    ])
      await call("GET", path);
    answers.push(await (await fetch(`${service.url}/metrics`)).text());
    expect(findings()).toEqual([]);
    service.child.kill("SIGTERM");
    await service.ended;
    expect(await perigee(["secrets", "list", "--project", "red"])).toContain("set-by-hand");
    expect(answers.length).toBeGreaterThan(20);
    expect(service.stderr()).toContain('"event":"request"');
    expect(findings()).toEqual([]);
    await perigee(["secrets", "rotate-key"]);
    expect(findings()).toEqual([]);
  }, 60_000);
});

async function useMail(mail: MailServer): Promise<void> {
  const server = { provider: "smtp", host: "127.0.0.1", port: mail.port, ca: CERTIFICATE };
  const login = { ...server, password: "secret://mail-password" };
  const message = {
    from: "a@example.org",
    to: "b@example.net",
    subject: "token secret://api-token",
    text: "secret://set-by-hand",
  };
  expect(await execute("send-email", message, { ...login, username: "bad" })).toMatchObject({
    status: "failed",
    error: { code: "authentication_failed", message: expect.stringContaining("[redacted]") },
  });
  mail.refusals.set("b@example.net", [550, `5.1.1 ${SECRETS["mail-password"]} unknown`]);
  expect(await execute("send-email", message, { ...login, username: "good" })).toMatchObject({
    error: { code: "smtp_550", message: expect.stringContaining("[redacted]") },
  });
  mail.refusals.clear();
  expect(await execute("send-email", message, { ...login, username: "good" })).toMatchObject({
    status: "completed",
  });
  const [taken] = mail.taken; // the password did its work, and what users wrote is as they wrote it
  expect(taken?.raw).toContain("token secret://api-token");
  expect(taken?.raw).toContain("secret://set-by-hand");
  expect(FORMS.filter((form) => taken?.raw.includes(form))).toEqual([]);
}

async function useWebhooks(echo: Receiver): Promise<void> {
  const headers = { authorization: "Bearer secret://api-token", "x-token": "secret://api-token" };
  const answer = { headers: ["x-request-id", "content-type"] };
  const config = { url: `${echo.url}/in?key=secret://api-token`, headers, answer };
  const done = await execute("call-webhook", { text: "secret://mail-password" }, config);
  expect(done).toMatchObject({ status: "completed" });
  expect(JSON.stringify(done)).toContain("[redacted]");
  expect(echo.received[0]?.headers.authorization).toBe(`Bearer ${SECRETS["api-token"]}`);
  expect(echo.received[0]?.body).toBe('{"text":"secret://mail-password"}');
  const failing = { ...config, url: `${echo.url}/fail` };
  expect(await execute("call-webhook", {}, failing)).toMatchObject({ error: { code: "http_400" } });
  const blocked = { url: "secret://hook-url", headers };
  expect(await execute("call-webhook", {}, blocked)).toMatchObject({ status: "failed" });
  expect(await execute("call-webhook", {}, { url: "secret://no-url" })).toMatchObject({
    error: { code: "invalid_input" },
  });
}

async function useLeaky(): Promise<void> {
  const config = { token: "secret://api-token" };
  const texts = { text: "secret://set-by-hand", login: "secret://mail-password" };
  const input = (mode: string): object => ({ mode, ...texts });
  expect(await execute("red/leaky", input("return"), config)).toMatchObject({
    status: "completed",
    output: {
      "[redacted]": ["[redacted]", expect.stringContaining("[redacted]")],
      input: { text: "secret://set-by-hand", login: "[redacted]" },
    },
  });
  expect(await execute("red/leaky", input("refuse"), config)).toMatchObject({
    error: { code: "leak", message: "no [redacted][redacted]secret://set-by-hand" },
  });
  expect(await execute("red/leaky", input("throw"), config)).toMatchObject({ status: "failed" });
  await vi.waitFor(() => expect(hostSaid).toContain("Bearer [redacted]"), { timeout: 5_000 });
}

/** A model that repeats what it is asked: what it answers is stored, listed and written to files. */
async function usePrompts(): Promise<void> {
  const satellite = "deepseek-r1-distrill-llama-70b";
  const model = "echo:repeats";
  const prompt = "repeat: secret://api-token";
  const one = { model, instruction: "say secret://mail-password" };
  expect(await execute(satellite, { prompt }, one)).toMatchObject({
    status: "completed",
    output: { response: expect.stringContaining("secret://api-token") },
  });
  const listed = { prompt: [prompt, prompt] };
  const done = (await execute(satellite, listed, { model, answers: "file" })) as {
    readonly output: { readonly file: { readonly file_id: string }; readonly task_id: string };
  };
  const { file, task_id: taskId } = done.output;
  for (const path of [`files/${file.file_id}/content`, `infer/task/${taskId}`, `files/output/${taskId}`])
    await call("GET", `/v0/${path}`);
  expect(answers.at(-1)).toContain("repeat: secret://api-token");
  const request = { model, contents: [{ parts: [{ text: prompt }] }] };
  const form = new FormData();
  form.append("file", new Blob([`${JSON.stringify({ key: "a", request })}\n`]), "prompts.jsonl");
  const init = { method: "PUT", headers: { authorization: `Bearer ${key}` }, body: form };
  const stored = await fetch(`${service.url}/v0/files/prompts.jsonl`, init);
  const { file_id: fileId } = (await stored.json()) as { readonly file_id: string };
  expect(await execute(satellite, { file_id: fileId }, { model })).toMatchObject({ status: "completed" });
}

/** Where a canary is: the first words of each place. */
function findings(): string[] {
  const places: [string, string][] = [
    ["stdout", service.stdout()],
    ["stderr", service.stderr()],
    ["stderr of the host", hostSaid],
    ...answers.map((text): [string, string] => [`answer ${text.slice(0, 80)}`, text]),
    ...textsBelow(join(dir, "perigee-data")),
  ];
  const forms = [...FORMS, hostSecret.slice(6)];
  return places.filter(([, text]) => forms.some((form) => text.includes(form))).map(([place]) => place);
}

/** What of each value would tell it apart: the word itself, and the middle of its base64 at each alignment. */
const FORMS = Object.values(SECRETS).flatMap((value) => {
  const word = value.slice(value.indexOf("canary"), value.indexOf("canary") + 7);
  const parts = [0, 1, 2].map((before) =>
    Buffer.from(`${" ".repeat(before)}${value}`)
      .toString("base64")
      .slice(4, 12),
  );
  return [word, ...parts];
});
