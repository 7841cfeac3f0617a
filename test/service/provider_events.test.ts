/**
 * Events of providers over real HTTP, against the whole service and a fake provider with a batch at work.
 */
import { createHmac } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { fastify } from "fastify";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { eventSecrets } from "../../src/engine/config/event_secrets.ts";
import { registerProviderEvents } from "../../src/service/webhooks/provider_events.ts";
import { type BatchService, openBatchService } from "./batch_service.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const OTHER = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
const TOKEN = "t".repeat(43);
const POLL_MS_MIN = 1_000;

let dataDir: string;
let service: BatchService;
let batchId: string;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-events-"));
  service = await openBatchService({
    dataDir,
    env: { PERIGEE_PROVIDER_OPENAI_WEBHOOK_SECRET: SECRET, PERIGEE_PROVIDER_OPENAI_WEBHOOK_TOKEN: TOKEN },
    lanes: { deny: ["flex"], pollSeconds: { min: POLL_MS_MIN / 1_000, max: 3_600 } },
  });
  await service.submit(1_500);
  await vi.waitFor(() => expect(service.fake.ledger.batches.size).toBe(1), { timeout: 20_000 });
  batchId = [...service.fake.ledger.batches.keys()][0] ?? "";
}, 60_000);

afterAll(async () => {
  await service?.close();
  rmSync(dataDir, { recursive: true, force: true });
});

/** Signed here with Node's own HMAC, as the standard says it. */
function signed(body: string, { secret = SECRET, atMs = Date.now(), id = "evt_1" } = {}) {
  const timestamp = String(Math.floor(atMs / 1_000));
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
}

async function post(path: string, body: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${service.url}v0/provider-events/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });
  return { status: response.status, text: await response.text() };
}

function event(id: string, type = "batch.completed"): string {
  return JSON.stringify({ id: "evt_1", object: "event", type, created_at: 1, data: { id } });
}

describe("an event of OpenAI", () => {
  it("that is signed polls its batch soon, and a flood of them costs one poll", async () => {
    const body = event(batchId);
    const before = service.polls();
    const startedMs = Date.now();
    for (let round = 0; round < 30; round += 1)
      expect(await post("openai", body, signed(body))).toEqual({ status: 204, text: "" });
    await vi.waitFor(() => expect(service.polls()).toBeGreaterThan(before), { timeout: 5_000 });
    const most = 1 + Math.ceil((Date.now() - startedMs) / (0.9 * POLL_MS_MIN));
    expect(service.polls() - before).toBeLessThanOrEqual(most);
  });

  it.each([
    ["of an unknown batch", event("batch_unknown")],
    ["of another kind", JSON.stringify({ type: "response.completed", data: { id: "resp_1" } })],
    ["that is not JSON", "{"],
    ["without data", JSON.stringify({ type: "batch.completed", data: null })],
  ])("%s is taken and changes nothing", async (_what, body) => {
    expect((await post("openai", body, signed(body))).status).toBe(204);
  });

  it("is taken with one valid signature among several", async () => {
    const body = event("batch_unknown");
    const valid = signed(body);
    const other = signed(body, { secret: OTHER })["webhook-signature"];
    const both = { ...valid, "webhook-signature": `${other} v2,abc ${valid["webhook-signature"]}` };
    expect((await post("openai", body, both)).status).toBe(204);
  });

  it.each<[string, (body: string) => Record<string, string>]>([
    ["without headers", () => ({})],
    ["signed with another secret", (body) => signed(body, { secret: OTHER })],
    ["of 6 minutes ago", (body) => signed(body, { atMs: Date.now() - 360_000 })],
    ["of 6 minutes ahead", (body) => signed(body, { atMs: Date.now() + 360_000 })],
    ["with another body", () => signed(event("batch_other"))],
    ["with another id", (body) => ({ ...signed(body), "webhook-id": "evt_2" })],
    [
      "with another time",
      (body) => ({ ...signed(body), "webhook-timestamp": String(Math.floor(Date.now() / 1_000) + 60) }),
    ],
    ["with no signature", (body) => ({ ...signed(body), "webhook-signature": "v1," })],
  ])("%s is refused with 401", async (_what, headersOf) => {
    const body = event(batchId);
    expect((await post("openai", body, headersOf(body))).status).toBe(401);
  });

  it("is refused for a provider without a secret, as for one that does not exist", async () => {
    const body = event(batchId);
    const answers = [await post("gemini", body, signed(body)), await post("nobody", body, signed(body))];
    expect(answers.map(({ status }) => status)).toEqual([401, 401]);
  });

  it("of more than 64 KiB is refused unread", async () => {
    const body = event("x".repeat(70_000));
    expect((await post("openai", body, signed(body))).status).toBe(413);
  });

  it("is documented with every status that it is answered with, and 422 is one of a query", async () => {
    const body = event("batch_unknown");
    expect((await post("openai?x=1", body, signed(body))).status).toBe(422);
    const { paths } = (await (await fetch(`${service.url}openapi.json`)).json()) as {
      readonly paths: Readonly<Record<string, { readonly post?: { readonly responses: object } }>>;
    };
    for (const path of ["/v0/provider-events/{provider}", "/v0/provider-events/{provider}/{token}"])
      expect(Object.keys(paths[path]?.post?.responses ?? {})).toEqual(["204", "401", "413", "422"]);
  });

  it("of a provider that signs none is proven by the token in its address", async () => {
    expect((await post(`openai/${"u".repeat(43)}`, "")).status).toBe(401);
    expect((await post(`gemini/${TOKEN}`, "")).status).toBe(401);
    const before = service.polls();
    expect((await post(`openai/${TOKEN}`, "any body")).status).toBe(204);
    await vi.waitFor(() => expect(service.polls()).toBeGreaterThan(before), { timeout: 5_000 });
  });

  it("that is refused is counted in the audit log", async () => {
    await service.close();
    const [file = ""] = readdirSync(dataDir).filter((name) => /^audit-.*\.jsonl$/.test(name));
    const text = readFileSync(join(dataDir, file), "utf8");
    expect(text).toContain('"event":"login.failed"');
    expect(text).not.toContain(batchId);
  });
});

describe("the engine", () => {
  async function heard(path: string, body: string, headers: Record<string, string>): Promise<string[]> {
    const hints: string[] = [];
    const app = fastify();
    app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
    registerProviderEvents(app, {
      clock: { wallMs: () => 1_700_000_000_000 },
      batches: { list: () => [], pollNow: (provider, id) => hints.push(`${provider} ${id}`) > 0 },
      secrets: new Map([["openai", { secrets: [OTHER, SECRET] }]]),
    });
    await app.inject({ method: "POST", url: `/v0/provider-events/${path}`, body, headers });
    await app.close();
    return hints;
  }
  const body = event("batch_1", "batch.expired");
  const valid = { ...signed(body, { atMs: 1_700_000_000_000 }), "content-type": "application/json" };

  it("hears of the batch of a signed event once", async () => {
    expect(await heard("openai", body, valid)).toEqual(["openai batch_1"]);
  });

  it("hears nothing when a character of the body, the id, the time or the signature is another", async () => {
    const texts = { ...valid, body };
    const part = fc.constantFrom("body", "webhook-id", "webhook-timestamp", "webhook-signature" as const);
    await fc.assert(
      fc.asyncProperty(part, fc.nat(), fc.constantFrom(..."0aZ{ "), async (name, at, character) => {
        const text = (texts as Record<string, string>)[name] ?? "";
        const place = at % text.length;
        if (text[place] === character) return;
        const changed = `${text.slice(0, place)}${character}${text.slice(place + 1)}`;
        const { body: sent, ...headers } = { ...texts, [name]: changed };
        expect(await heard("openai", sent, headers)).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });
});

describe("secrets of events", () => {
  it("are read from the variables of their providers, two while one is replaced", () => {
    const env = { OPENAI_WEBHOOK_SECRET: `${SECRET} ${OTHER}`, PERIGEE_PROVIDER_MY_BOX_WEBHOOK_TOKEN: TOKEN };
    expect([...eventSecrets(["openai", "my-box", "groq"], env)]).toEqual([
      ["openai", { secrets: [SECRET, OTHER] }],
      ["my-box", { secrets: [], token: TOKEN }],
    ]);
  });

  it.each([
    [
      { PERIGEE_PROVIDER_OPENAI_WEBHOOK_SECRET: "hunter2" },
      /OPENAI_WEBHOOK_SECRET must be the signing secret/,
    ],
    [{ PERIGEE_PROVIDER_OPENAI_WEBHOOK_TOKEN: "hunter2" }, /OPENAI_WEBHOOK_TOKEN must have 32 to 200/],
  ])("are refused without showing them", (env, message) => {
    expect(() => eventSecrets(["openai"], env)).toThrow(message);
    expect(() => eventSecrets(["openai"], env)).not.toThrow(/hunter2/);
  });
});
