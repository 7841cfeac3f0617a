/**
 * Who may do what: every kind of key, at every route, with ids of its own, of another project, unknown and malformed.
 */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SCOPES } from "../../src/service/http/caller.ts";
import { createKeyVerifier } from "../../src/service/http/key_verifier.ts";
import { openKeyStore } from "../../src/store/keys/key_store.ts";
import { hostShout, SHOUTED, shoutAt } from "./hosted_satellite.ts";
import { formOf, openWhole, type Whole, type WholeAnswer } from "./whole.ts";

const READ = SCOPES.filter((scope) => scope.endsWith(":read"));
/** Nothing listens there, and the tests' service may go there. */
const HOOK = { url: "http://127.0.0.1:1/" };
const RUN = "/v1/satellites/{project}/{satellite}";
const VENDOR = "perigee/deepseek-r1-distrill-llama-70b";
const EXECUTION = { input: { prompt: "x" } };
const MEMBER = { name: "One", uses: `satellite/${VENDOR}`, identifier: "one", ...EXECUTION };
const RESPONSE = { model: "echo:test", input: "x", background: true, metadata: { sla: "1h" } };
/** Bodies of calls that are answered at once, without their model. */
const CALLS: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "x" }] },
  "/v1/completions": { prompt: "x" },
  "/v1/embeddings": { input: "x" },
  "/v1/responses": { input: "x" },
};
const CLUSTER = { declaration: { sla: "1h", cluster: { satellites: [MEMBER] } } };
/** For those who have the scope admin: of satellites of every project. */
const DECISION = /\/(verify|approve|disable|enable)$/;
/** For them, too: what is sold to every project. */
const REPORT = "/v0/margin";
/** The same to every project: a model is nobody's thing. */
const MODEL = "/v1/models/{id}";
const ALL = SCOPES.filter((scope) => scope !== "admin");
const line = { key: "a", request: { model: "echo:test", contents: [{ parts: [{ text: "x" }] }] } };

interface Operation {
  readonly path: string;
  readonly method: string;
  readonly isOpen: boolean;
  readonly names: readonly string[];
  readonly isForm: boolean;
}

/** What a project has made, by kind. */
interface Things {
  readonly task: string;
  readonly object: string;
  readonly file: string;
  readonly batch: string;
  readonly model: string;
  readonly response: string;
  readonly webhook: string;
  readonly secret: string;
  readonly project: string;
  readonly satellite: string;
  readonly execution_id: string;
  readonly cluster_id: string;
}

let whole: Whole;
let hostUrl: string;
let operations: Operation[];
let own: Things;
let foreign: Things;
const keys: Record<string, string> = {};

beforeAll(async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-keys-"));
  const store = await openKeyStore({ dataDir, clock: systemClock });
  afterAll(() => {
    store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const make = (name: string, scopes: readonly string[], project = "own", expiresWallMs?: number): void => {
    const isBeta = name !== "plain";
    const { key, stored } = store.create({ project, name, scopes, isBeta, expiresWallMs });
    keys[name] = key;
    if (name === "revoked") store.revoke(stored.id);
  };
  make("full", ALL);
  make("other", ALL, "other");
  make("operator", SCOPES);
  make("plain", ALL);
  make("reader", READ);
  make("revoked", SCOPES);
  make("expired", SCOPES, "own", 1);
  keys["wrong"] = `${keys["full"]?.slice(0, -1)}${keys["full"]?.endsWith("0") ? "1" : "0"}`;
  keys["none"] = "";
  whole = await openWhole({ verifier: createKeyVerifier(store) });
  operations = await described();
  hostUrl = await hostShout(whole.call, [
    { project: "own", key: keys["full"] },
    { project: "other", key: keys["other"] },
  ]);
  own = await thingsOf("full");
  foreign = await thingsOf("other");
});

async function described(): Promise<Operation[]> {
  const { paths } = JSON.parse((await whole.call("GET", "/openapi.json", { key: "" })).text) as {
    paths: Record<
      string,
      Record<
        string,
        {
          security?: object[];
          responses: Record<string, unknown>;
          parameters?: { name: string; in: string }[];
        }
      >
    >;
  };
  // An event of a provider is proven by its signature, whatever key is sent with it: provider_events.test.ts.
  const keyed = Object.entries(paths).filter(([path]) => !path.startsWith("/v0/provider-events/"));
  return keyed.flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses, parameters = [] }]) => ({
      path,
      method: method.toUpperCase(),
      isOpen: responses["401"] === undefined,
      names: parameters.filter((parameter) => parameter.in === "path").map(({ name }) => name),
      isForm: path === "/v0/files/{file_name}" || (method === "post" && path === "/v1/files"),
    })),
  );
}

async function thingsOf(name: string): Promise<Things> {
  const key = keys[name] as string;
  const posted = await whole.call("POST", "/v0/infer/", { key, body: [{ model: "echo:test", input: "x" }] });
  const { task_id, objects } = JSON.parse(posted.text) as {
    task_id: string;
    objects: { object_id: string }[];
  };
  const put = await whole.call("PUT", "/v0/files/in.jsonl", { key, body: formOf([line]) });
  const { file_id } = JSON.parse(put.text) as { file_id: string };
  const input = {
    input_file_id: openaiId("file-", file_id),
    endpoint: "/v1/chat/completions",
    completion_window: "1h",
  };
  const batch = JSON.parse((await whole.call("POST", "/v1/batches", { key, body: input })).text) as {
    id: string;
  };
  const second = await whole.call("PUT", "/v0/files/in.jsonl", { key, body: formOf([line]) });
  const { file_id: file } = JSON.parse(second.text) as { file_id: string };
  const asked = await whole.call("POST", "/v1/responses", { key, body: RESPONSE });
  const { id: response } = JSON.parse(asked.text) as { id: string };
  const hook = await whole.call("POST", "/v0/webhooks", { key, body: HOOK });
  const { id: webhook } = JSON.parse(hook.text) as { id: string };
  const secret = `of-${name}`;
  await whole.call("PUT", `/v1/secrets/${secret}`, { key, body: { value: "hidden" } });
  const project = name === "other" ? "other" : "own";
  const run = await whole.call("POST", `/v1/satellites/${project}/shout`, { key, body: SHOUTED });
  const { execution_id } = JSON.parse(run.text) as { execution_id: string };
  const cluster = await whole.call("POST", "/v1/clusters", { key, body: CLUSTER });
  const { cluster_id } = JSON.parse(cluster.text) as { cluster_id: string };
  return {
    ...{ task: task_id, object: objects[0]?.object_id ?? "", file, batch: batch.id, webhook, secret },
    ...{ project, satellite: "shout", execution_id, cluster_id, model: "echo:test", response },
  };
}

/** The path with an id of the kind that belongs there. */
function pathOf({ path, names }: Operation, things: Things): string {
  return names.reduce((url, name) => url.replace(`{${name}}`, idFor(path, name, things)), path);
}

function idFor(path: string, name: string, things: Things): string {
  const { task, object, file, batch, webhook, secret, model, response } = things;
  if (name === "project" || name === "satellite" || name === "execution_id" || name === "cluster_id")
    return things[name];
  if (path.startsWith("/v1/secrets/")) return secret;
  if (path.startsWith("/v0/webhooks/")) return webhook;
  if (path.includes("/object/")) return object;
  if (path.startsWith("/v1/files/")) return openaiId("file-", file);
  if (path.startsWith("/v1/batches/")) return batch;
  if (path.startsWith("/v1/responses/")) return response;
  if (path === MODEL) return model;
  if (path.startsWith("/v0/files/output/")) return `${task}.jsonl`;
  return path.startsWith("/v0/files/") ? file : task;
}

function withPurpose(form: FormData): FormData {
  form.append("purpose", "batch");
  return form;
}

function openaiId(prefix: string, id: string): string {
  return prefix + id.replaceAll("-", "");
}

const unknown = (): Things => ({
  task: randomUUID(),
  object: randomUUID(),
  file: randomUUID(),
  batch: openaiId("batch_", randomUUID()),
  model: "nobody:serves",
  response: openaiId("resp_", randomUUID()),
  webhook: randomUUID(),
  secret: "unknown",
  project: "unknown",
  satellite: "unknown",
  execution_id: randomUUID(),
  cluster_id: randomUUID(),
});
const malformed: Things = {
  task: "x",
  object: "%00",
  file: "%2e%2e%2fx",
  batch: "batch_",
  model: "%00",
  response: "resp_",
  webhook: "x",
  secret: "%00",
  project: "OWN",
  satellite: "%2e%2e%2fx",
  execution_id: "x",
  cluster_id: "x",
};

function bodyFor({ method, path, isForm }: Operation): { body?: unknown } {
  if (isForm) return { body: path.startsWith("/v1/") ? withPurpose(formOf([line])) : formOf([line]) };
  if (path.startsWith("/v1/secrets/") && method === "PUT") return { body: { value: "hidden" } };
  if (method === "PATCH") return { body: {} };
  if (path === RUN && method === "PUT") return { body: shoutAt(hostUrl) };
  if (method !== "POST") return {};
  if (path === "/v0/webhooks") return { body: HOOK };
  if (path === RUN) return { body: SHOUTED };
  if (path === "/v1/clusters" || path === "/v1/clusters/check") return { body: CLUSTER };
  const call = CALLS[path];
  if (call !== undefined) return { body: { model: "echo:test", ...call } };
  if (path === "/v0/infer/" || path === "/v0/quote")
    return { body: [{ model: "echo:test", input: "x", sla: 60 }] };
  if (path !== "/v1/batches") return {};
  const input_file_id = openaiId("file-", own.file);
  return { body: { input_file_id, endpoint: "/v1/chat/completions", completion_window: "1h" } };
}

function call(operation: Operation, name: string, things: Things): Promise<WholeAnswer> {
  return whole.call(operation.method, pathOf(operation, things), { ...bodyFor(operation), key: keys[name] });
}

/** Without what differs in every answer. */
function bodyOf({ text }: WholeAnswer): string {
  return text.replace(/"request_id":"[^"]*"/, "");
}

describe("fault 86: the authorization matrix", () => {
  it("has every route that is not open to everybody", () => {
    const open = operations.filter(({ isOpen }) => isOpen).map(({ path }) => path);
    expect(open.sort()).toEqual(["/healthz", "/readyz", "/v0/files/link/{token}"].sort());
    expect(operations.length).toBeGreaterThan(15);
  });

  it("answers one 401 at every route and id to no key, a wrong, a revoked and an expired one", async () => {
    const bodies = new Set<string>();
    for (const operation of operations.filter(({ isOpen }) => !isOpen)) {
      for (const name of ["none", "wrong", "revoked", "expired"]) {
        for (const things of [own, foreign, unknown(), malformed]) {
          const answer = await call(operation, name, things);
          if (answer.status === 404 && things === malformed) continue; // the id makes it no route
          expect([operation.path, name, answer.status]).toEqual([operation.path, name, 401]);
          bodies.add(bodyOf(answer));
        }
      }
    }
    expect(bodies.size).toBe(1);
  });

  it("takes only the key at satellites, clusters and secrets, and after Bearer everywhere else", async () => {
    const { paths } = JSON.parse((await whole.call("GET", "/openapi.json", { key: "" })).text) as {
      paths: Record<string, Record<string, { security?: Record<string, unknown>[] }>>;
    };
    for (const operation of operations.filter(({ isOpen }) => !isOpen)) {
      const { path, method } = operation;
      const isBare = paths[path]?.[method.toLowerCase()]?.security?.[0]?.["bareKey"] !== undefined;
      expect([path, isBare]).toEqual([
        path,
        /^\/v1\/(satellites|executions|clusters|secrets)(\/|$)/.test(path),
      ]);
      const key = keys["full"] ?? "";
      const wrong = isBare
        ? [`Bearer ${key}`, `bearer ${key}`, `Basic ${key}`]
        : [key, `Basic ${key}`, `Bearer  ${key}`];
      for (const authorization of wrong) {
        const given = { ...bodyFor(operation), key: "", headers: { authorization } };
        const { status } = await whole.call(method, pathOf(operation, own), given);
        expect([method, path, authorization.split(key)[0], status]).toEqual([
          ...[method, path, authorization.split(key)[0]],
          401,
        ]);
      }
    }
  });

  it("reads alike with and without a slash at the end", async () => {
    for (const operation of operations.filter(({ method }) => method === "GET")) {
      const path = pathOf(operation, own);
      const other = path.endsWith("/") ? path.slice(0, -1) : `${path}/`;
      const [one, two] = await Promise.all(
        [path, other].map((url) => whole.call("GET", url, { key: keys["full"] })),
      );
      expect([other, two?.status]).toEqual([other, one?.status]);
      expect(two?.status).not.toBe(308);
    }
  });

  it("answers ids of another project as unknown ones, byte for byte", async () => {
    const withIds = operations.filter(
      ({ isOpen, names, method }) => !isOpen && names.length > 0 && method !== "PUT",
    );
    expect(withIds.length).toBeGreaterThan(8);
    for (const operation of withIds) {
      if (DECISION.test(operation.path) || operation.path === MODEL) continue;
      const unknownAnswer = await call(operation, "full", unknown());
      expect([operation.method, operation.path, unknownAnswer.status]).toEqual([
        operation.method,
        operation.path,
        404,
      ]);
      const foreignAnswer = await call(operation, "full", foreign);
      expect([foreignAnswer.status, bodyOf(foreignAnswer)]).toEqual([404, bodyOf(unknownAnswer)]);
      expect(headersOf(foreignAnswer)).toEqual(headersOf(unknownAnswer));
      expect((await call(operation, "full", malformed)).status).toBe(404);
    }
  });

  it("answers every name of a satellite alike to a key that may decide nothing", async () => {
    const decisions = operations.filter(({ path }) => DECISION.test(path));
    expect(decisions).toHaveLength(4);
    for (const operation of decisions) {
      const answers = await Promise.all(
        [own, foreign, unknown(), malformed].map((things) => call(operation, "full", things)),
      );
      expect([operation.path, answers.map(({ status }) => status)]).toEqual([
        operation.path,
        [403, 403, 403, 403],
      ]);
      expect(new Set(answers.map(bodyOf)).size).toBe(1);
      for (const things of [unknown(), malformed])
        expect([operation.path, (await call(operation, "operator", things)).status]).toEqual([
          operation.path,
          404,
        ]);
    }
  });

  it("keeps vendor satellites from a key without the beta flag, on every way to them", async () => {
    const ask = async (method: string, path: string, body?: object) =>
      (await whole.call(method, path, { key: keys["plain"], body })).status;
    expect(await ask("POST", `/v1/satellites/${VENDOR}`, EXECUTION)).toBe(403);
    expect(await ask("GET", `/v1/satellites/${VENDOR}`)).toBe(403);
    expect(await ask("GET", "/v1/satellites/perigee")).toBe(404);
    const configured = { kind: "configured", base: `satellite/${VENDOR}`, config: {} };
    expect(await ask("PUT", "/v1/satellites/own/mine", configured)).toBe(403);
    expect(await ask("POST", "/v1/clusters", CLUSTER)).toBe(422);
    const { text } = await whole.call("GET", "/v1/satellites", { key: keys["plain"] });
    expect(text).not.toContain("satellite/perigee/");
    expect(text).toContain("satellite/own/shout");
    expect(await ask("POST", "/v1/satellites/own/shout", SHOUTED)).toBe(200);
    await whole.call("PUT", "/v1/satellites/own/mine", { key: keys["full"], body: configured });
    expect(await ask("POST", "/v1/satellites/own/mine", EXECUTION)).toBe(403); // it is based on one of perigee
    expect(await ask("GET", `/v1/clusters/${own.cluster_id}`)).toBe(200); // what its project has made, it may read
  });

  it("answers a file of another project inside a POST as an unknown one", async () => {
    for (const path of ["/v0/infer/", "/v0/quote"]) {
      const answers = [];
      for (const { file } of [foreign, unknown()])
        answers.push(
          await whole.call("POST", path, { key: keys["full"], body: [{ file_id: file, sla: 60 }] }),
        );
      expect([path, answers[0]?.status]).toEqual([path, 404]);
      expect(bodyOf(answers[0] as WholeAnswer)).toBe(bodyOf(answers[1] as WholeAnswer));
    }
  });

  it("lets a key that reads read, and change nothing", async () => {
    for (const operation of operations.filter(({ isOpen }) => !isOpen)) {
      const { method, path } = operation;
      const answer = await call(operation, "reader", own);
      const isReading =
        (method === "GET" && path !== REPORT) || path === "/v0/quote" || path.endsWith("/link");
      expect([method, path, answer.status]).toEqual([method, path, isReading ? 200 : 403]);
    }
  });

  it("lists to a project only its own things", async () => {
    for (const { path, names, method } of operations) {
      if (method !== "GET" || names.length > 0) continue;
      const { text } = await whole.call("GET", path, { key: keys["other"] });
      for (const id of Object.values({ ...own, project: "satellite/own/", satellite: own.task }))
        expect([path, text.includes(id)]).toEqual([path, false]);
    }
  });

  it("lets the owner do all of it", async () => {
    const last = (operation: Operation): number => (operation.method === "DELETE" ? 1 : 0);
    for (const operation of [...operations].sort((a, b) => last(a) - last(b))) {
      if (operation.isOpen) continue;
      const { method, path } = operation;
      const things = method === "DELETE" && path.includes("/files/") ? await thingsOf("full") : own; // own.file is at work
      const name = DECISION.test(path) || path === REPORT ? "operator" : "full";
      expect([method, path, (await call(operation, name, things)).status]).toEqual([method, path, 200]);
    }
  });
});

function headersOf({ headers }: WholeAnswer): string[] {
  return [...headers.keys()].filter((name) => name !== "date").sort();
}
