/** Which satellites there are, and who may run which (interface 2.11). */
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { type CatalogueOptions, openCatalogue } from "../../src/satellites/kinds/open_catalogue.ts";
import { writeSatellite } from "../../src/satellites/kinds/satellite_records.ts";
import { createOrbitHost } from "../../src/satellites/orbit/host.ts";
import { newOrbitSecret } from "../../src/satellites/orbit/signature.ts";
import type { Registration } from "../../src/satellites/sdk/catalogue.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { describeSatellite } from "../../src/satellites/sdk/description.ts";
import type { ExecutionCaller } from "../../src/satellites/sdk/execution.ts";
import type { AnySatellite } from "../../src/satellites/sdk/satellite.ts";
import { createVault } from "../../src/satellites/secrets/vault.ts";
import { z } from "../../src/schema.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { EVERY_PROJECT } from "../../src/store/records.ts";
import { attempt, host, localHttp } from "./orbit_world.ts";

const mail = defineSatellite({
  ...{ name: "send-email", description: "Sends mail.", isRepeatable: true },
  input: z.strictObject({ to: z.string() }),
  config: z.strictObject({ server: z.string(), port: z.int().default(25), token: z.string().optional() }),
  run: async ({ config }) => ({ config }),
});
const shout = defineSatellite({
  ...{ name: "shout", description: "Says it louder." },
  input: z.strictObject({ text: z.string() }),
  output: z.strictObject({ said: z.string() }),
  example: { input: { text: "hi" }, config: {}, output: { said: "HI" } },
  run: async ({ input }) => ({ said: input.text.toUpperCase() }),
});

const caller = (project: string, isBeta = false): ExecutionCaller => ({
  project,
  keyId: `key_${project}`,
  isBeta,
});
const acme = caller("acme");
const other = caller("other");
const at = (namespace: string, name: string) => ({ namespace, name });
const nowhere = { url: "http://127.0.0.1:9/", described: describeSatellite(shout) } as const;
const custom: Registration = { kind: "custom", ...nowhere };
const community: Registration = { kind: "community", ...nowhere };

const vault = createVault({ id: "0".repeat(16), bytes: Buffer.alloc(32, 7) });

async function open(options: Partial<CatalogueOptions> = {}) {
  const store = options.store ?? createMemoryStore();
  const parts = { clock: systemClock, store, vault, vendor: [mail], http: localHttp, ...options };
  return { store, catalogue: await openCatalogue(parts) };
}

async function opened(options: Partial<CatalogueOptions> = {}) {
  return (await open(options)).catalogue;
}

/** A community satellite that is really hosted. */
async function withCommunity(satellite: AnySatellite = shout) {
  const catalogue = await opened();
  const registration = { ...community, described: describeSatellite(satellite) };
  const { secret = "" } = await catalogue.register("acme", registration);
  const hosted = await host([satellite], { secrets: [{ secret }] });
  await catalogue.register("acme", { ...registration, url: hosted.url });
  return { catalogue, reference: at("acme", satellite.name) };
}

describe("a vendor satellite", () => {
  it("is for callers with the beta flag, and forbidden to others", async () => {
    const catalogue = await opened();
    const reference = at("perigee", "send-email");
    expect(await catalogue.resolve(caller("acme", true), reference)).toMatchObject({
      kind: "vendor",
      fixedConfig: {},
    });
    await expect(catalogue.resolve(acme, reference)).rejects.toMatchObject({ code: "forbidden" });
    await expect(catalogue.resolve(acme, at("perigee", "other"))).rejects.toMatchObject({
      code: "not_found",
    });
    expect((await catalogue.list(acme, { limit: 10 })).items).toEqual([]);
    expect((await catalogue.list(caller("acme", true), { limit: 10 })).items).toHaveLength(1);
  });

  it("asks for the flag of the key as it is now, not as it was when it submitted", async () => {
    const flagged = new Set(["key_acme"]);
    const catalogue = await opened({ isBetaKey: (keyId) => flagged.has(keyId) });
    const reference = at("perigee", "send-email");
    await catalogue.resolve(acme, reference);
    flagged.clear();
    await expect(catalogue.resolve(caller("acme", true), reference)).rejects.toMatchObject({
      code: "forbidden",
    });
    await catalogue.resolve({ project: "acme", keyId: undefined, isBeta: false }, reference);
  });

  it("is switched off and on by the operator, also over a restart", async () => {
    const { store, catalogue } = await open();
    const reference = at("perigee", "send-email");
    expect(await catalogue.disable(reference)).toMatchObject({ kind: "vendor", state: "disabled" });
    const again = await opened({ store });
    await expect(again.resolve(caller("acme", true), reference)).rejects.toMatchObject({ code: "not_found" });
    expect(await again.enable(reference)).toMatchObject({ state: "approved" });
    await again.resolve(caller("acme", true), reference);
  });
});

describe("a custom satellite", () => {
  it("is only for its own project, at once, and has its secret shown once", async () => {
    const catalogue = await opened();
    const { view, secret } = await catalogue.register("acme", custom);
    expect(secret).toMatch(/^whsec_/);
    expect(view).toMatchObject({ kind: "custom", state: "registered", url: nowhere.url });
    expect(JSON.stringify(view)).not.toContain("whsec_");
    expect(await catalogue.resolve(acme, at("acme", "shout"))).toMatchObject({ kind: "custom" });
    await expect(catalogue.resolve(other, at("acme", "shout"))).rejects.toMatchObject({ code: "not_found" });
    expect((await catalogue.register("acme", custom)).secret).toBeUndefined();
    const renewed = await catalogue.register("acme", { ...custom, isSecretRenewed: true });
    expect(renewed.secret).not.toBe(secret);
    for (const act of ["verify", "approve"] as const)
      await expect(catalogue[act](at("acme", "shout"))).rejects.toMatchObject({ code: "conflict" });
  });

  it("may be one that the embedding program trusts, in this process", async () => {
    const catalogue = await opened({ trusted: [{ project: "acme", satellites: [shout] }] });
    const { satellite, kind } = await catalogue.resolve(acme, at("acme", "shout"));
    expect(kind).toBe("custom");
    expect(await satellite.run(attempt({ input: { text: "a" } }).call)).toEqual({ said: "A" });
    await expect(catalogue.resolve(other, at("acme", "shout"))).rejects.toMatchObject({ code: "not_found" });
    await expect(catalogue.register("acme", custom)).rejects.toMatchObject({ code: "conflict" });
    await expect(opened({ trusted: [{ project: "perigee", satellites: [shout] }] })).rejects.toThrow(
      /not a valid project/,
    );
  });

  it("does not exist once it is removed, for executions too", async () => {
    const { store, catalogue } = await open();
    await catalogue.register("acme", custom);
    await expect(catalogue.remove("other", "shout")).rejects.toMatchObject({ code: "not_found" });
    await catalogue.remove("acme", "shout");
    for (const one of [catalogue, await opened({ store })])
      await expect(one.resolve(acme, at("acme", "shout"))).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("a community satellite", () => {
  it("is for others once it was verified and approved, and for its own project from the start", async () => {
    const { catalogue, reference } = await withCommunity();
    await catalogue.resolve(acme, reference);
    const isForOthers = () =>
      catalogue.resolve(other, reference).then(
        () => true,
        () => false,
      );
    expect(await isForOthers()).toBe(false);
    await expect(catalogue.approve(reference)).rejects.toThrow(/not verified yet/);
    expect(await catalogue.verify(reference)).toMatchObject({ state: "verified" });
    expect(await isForOthers()).toBe(false);
    expect(await catalogue.approve(reference)).toMatchObject({ state: "approved" });
    expect(await isForOthers()).toBe(true);
    expect(await catalogue.describe(other, reference)).not.toHaveProperty("url");
    expect(await catalogue.disable(reference)).toMatchObject({ state: "disabled" });
    expect(await isForOthers()).toBe(false);
    await expect(catalogue.resolve(acme, reference)).rejects.toMatchObject({ code: "not_found" });
    expect(await catalogue.enable(reference)).toMatchObject({ state: "approved" });
    expect(await isForOthers()).toBe(true);
  });

  it("begins again when its project changes what it is", async () => {
    const { catalogue, reference } = await withCommunity();
    await catalogue.verify(reference);
    await catalogue.approve(reference);
    const described = { ...describeSatellite(shout), description: "Says something else." };
    const { view } = await catalogue.register("acme", { ...community, described });
    expect(view.state).toBe("registered");
    await expect(catalogue.resolve(other, reference)).rejects.toMatchObject({ code: "not_found" });
  });

  it("begins again when its host has become another", async () => {
    const secret = newOrbitSecret();
    const parts = { clock: systemClock, http: localHttp, secrets: [{ secret }] };
    const first = createOrbitHost({ ...parts, satellites: [shout] });
    const url = await first.listen({ host: "127.0.0.1", port: 0 });
    const { store } = await open();
    await writeSatellite(
      { store, vault },
      {
        ...{ reference: at("acme", "shout"), createdWallMs: 1, kind: "community", state: "registered" },
        ...{ url, secret, described: describeSatellite(shout) },
      },
    );
    const catalogue = await opened({ store });
    await catalogue.verify(at("acme", "shout"));
    await catalogue.approve(at("acme", "shout"));
    const { satellite } = await catalogue.resolve(other, at("acme", "shout"));
    await first.close();
    const second = createOrbitHost({ ...parts, satellites: [{ ...shout, description: "changed" }] });
    await second.listen({ host: "127.0.0.1", port: Number(new URL(url).port) });
    onTestFinished(() => second.close());
    await expect(satellite.run(attempt({ input: { text: "a" } }).call)).rejects.toMatchObject({
      failure: "permanent",
      code: "satellite_changed",
    });
    await expect.poll(() => catalogue.resolve(other, at("acme", "shout")).catch(() => "gone")).toBe("gone");
    await expect(catalogue.verify(at("acme", "shout"))).rejects.toThrow(
      /otherwise than it was registered: description/,
    );
  });

  it("is not verified when its host describes another, trusts anybody, or fails the example", async () => {
    const lying = { ...shout, run: async () => ({ said: "no" }) };
    const { catalogue, reference } = await withCommunity(lying);
    await expect(catalogue.verify(reference)).rejects.toThrow(/another output than it says/);
    const hosted = await host([shout]);
    await catalogue.register("acme", { ...community, url: hosted.url });
    await expect(catalogue.verify(reference)).rejects.toThrow(/does not accept the signature/);
  });

  it("needs an example that fits, https beyond this machine, and an address that may be called", async () => {
    const catalogue = await opened();
    const { example: _example, ...without } = describeSatellite(shout);
    const refused = async (given: Partial<Registration>) =>
      catalogue.register("acme", { ...community, ...given }).then(
        () => "taken",
        (error: { code: string; details: object }) => [error.code, error.details],
      );
    expect(await refused({ described: without })).toEqual([
      "invalid_request",
      { param: "satellite.example" },
    ]);
    const wrong = { ...without, example: { input: { text: 1 }, config: {} } };
    expect(await refused({ described: wrong })).toEqual([
      "invalid_request",
      { param: "satellite.example.input.text" },
    ]);
    expect(await refused({ url: "http://orbit.acme.com/" })).toEqual(["invalid_request", { param: "url" }]);
    expect(await refused({ url: "https://10.0.0.1/" })).toEqual(["blocked_destination", { param: "url" }]);
    expect(await refused({ url: "https://orbit.acme.com/" })).toBe("taken");
  });
});

describe("a configured satellite", () => {
  const beta = caller("acme", true);
  const mailer = at("acme", "mailer");

  it("is its base with settings that are fixed, that win, and that nobody is shown", async () => {
    const catalogue = await opened();
    const config = { server: "mail.acme.com", token: "secret://mail-token" };
    const view = await catalogue.configure(beta, "mailer", { base: at("perigee", "send-email"), config });
    expect(view).toMatchObject({
      ...{ kind: "configured", state: "registered", description: "Sends mail." },
      base: { reference: at("perigee", "send-email"), fixedConfig: ["server", "token"] },
      configSchema: { properties: { port: {} }, additionalProperties: false },
    });
    expect(JSON.stringify(view)).not.toMatch(/mail\.acme\.com|mail-token/);
    const resolved = await catalogue.resolve(beta, mailer);
    expect(resolved).toMatchObject({ kind: "configured", reference: mailer, fixedConfig: config });
    expect(resolved.satellite.name).toBe("send-email");
  });

  it("is only for its own project, and needs the beta flag when its base does", async () => {
    const catalogue = await opened();
    await catalogue.configure(beta, "mailer", { base: at("perigee", "send-email"), config: { server: "a" } });
    await expect(catalogue.resolve(caller("other", true), mailer)).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(catalogue.resolve(acme, mailer)).rejects.toMatchObject({ code: "forbidden" });
    expect((await catalogue.list(acme, { limit: 10 })).items).toEqual([]);
    const wanted = { base: at("perigee", "send-email"), config: {} };
    await expect(catalogue.configure(acme, "mine", wanted)).rejects.toMatchObject({ code: "forbidden" });
    await expect(catalogue.configure(other, "mine", { base: mailer, config: {} })).rejects.toMatchObject({
      code: "not_found",
    });
  });

  it("is based on others, whose settings win over its own, and is not found when one of them was removed", async () => {
    const catalogue = await opened();
    await catalogue.configure(beta, "mailer", { base: at("perigee", "send-email"), config: { server: "a" } });
    await catalogue.configure(beta, "secure", { base: mailer, config: { port: 465 } });
    expect((await catalogue.resolve(beta, at("acme", "secure"))).fixedConfig).toEqual({
      server: "a",
      port: 465,
    });
    const again = { base: mailer, config: { server: "b" } };
    await expect(catalogue.configure(beta, "secure", again)).rejects.toThrow(/fixed by its base already/);
    await catalogue.remove("acme", "mailer");
    await expect(catalogue.resolve(beta, at("acme", "secure"))).rejects.toMatchObject({ code: "not_found" });
  });

  it("is never based on a circle, and on eight others at most", async () => {
    const catalogue = await opened();
    const base = at("perigee", "send-email");
    await catalogue.configure(beta, "c0", { base, config: {} });
    for (let n = 1; n < 7; n += 1)
      await catalogue.configure(beta, `c${n}`, { base: at("acme", `c${n - 1}`), config: {} });
    const onLast = { base: at("acme", "c6"), config: {} };
    await expect(catalogue.configure(beta, "c0", onLast)).rejects.toThrow(/based on itself/);
    await expect(catalogue.configure(beta, "c6", onLast)).rejects.toThrow(/based on itself/);
    await expect(catalogue.configure(beta, "c7", onLast)).rejects.toThrow(/at most 8 others/);
    await expect(catalogue.configure(beta, "x", { base: at("acme", "x"), config: {} })).rejects.toMatchObject(
      {
        code: "not_found",
      },
    );
  });

  it("is refused a setting that there is not, or that is wrong; what refers to a secret is checked when it runs", async () => {
    const catalogue = await opened();
    const configure = (config: Record<string, string | number>) =>
      catalogue.configure(beta, "mailer", { base: at("perigee", "send-email"), config });
    await expect(configure({ host: "a" })).rejects.toMatchObject({ details: { param: "config.host" } });
    await expect(configure({ port: "25" })).rejects.toMatchObject({ details: { param: "config.port" } });
    await configure({ port: "secret://port" });
  });
});

it("neither the secret of a host nor a fixed setting is in the store as plain text", async () => {
  const { store, catalogue } = await open();
  const { secret = "" } = await catalogue.register("acme", custom);
  const config = { server: "canary.acme.com" };
  const beta = caller("acme", true);
  await catalogue.configure(beta, "mailer", { base: at("perigee", "send-email"), config });
  const stored = await store.records(EVERY_PROJECT, { collection: "satellite", limit: 10 });
  expect(stored).toHaveLength(2);
  for (const { body, payload } of stored)
    expect(body + Buffer.from(payload ?? []).toString("latin1")).not.toMatch(/canary|whsec_/);
  expect(secret).toMatch(/^whsec_/);
  const again = await opened({ store });
  expect((await again.resolve(beta, at("acme", "mailer"))).fixedConfig).toEqual(config);
});

describe("names", () => {
  it("are found as they are written and no other way, and a project has 100 at most", async () => {
    const catalogue = await opened();
    await catalogue.register("acme", custom);
    for (const name of ["Shout", "shout ", "ſhout", "../shout", "acme/shout", "__proto__", "", "shout%2f"])
      await expect(catalogue.resolve(acme, at("acme", name))).rejects.toMatchObject({ code: "not_found" });
    await expect(catalogue.register("perigee", custom)).rejects.toMatchObject({ code: "not_found" });
    for (let n = 1; n < 100; n += 1)
      await catalogue.register("acme", { ...custom, described: { ...custom.described, name: `n${n}` } });
    const more = { ...custom, described: { ...custom.described, name: "more" } };
    await expect(catalogue.register("acme", more)).rejects.toMatchObject({ code: "too_many" });
  });

  it("are listed in order, page by page, and by namespace", async () => {
    const catalogue = await opened();
    for (const name of ["b", "a", "c"])
      await catalogue.register("acme", { ...custom, described: { ...custom.described, name } });
    const names = async (query: object, who = caller("acme", true)) => {
      const { items, hasMore } = await catalogue.list(who, { limit: 2, ...query });
      return [...items.map(({ reference }) => `${reference.namespace}/${reference.name}`), hasMore];
    };
    expect(await names({})).toEqual(["acme/a", "acme/b", true]);
    expect(await names({ after: "acme/b" })).toEqual(["acme/c", "perigee/send-email", false]);
    expect(await names({ namespace: "perigee" })).toEqual(["perigee/send-email", false]);
    expect(await names({}, other)).toEqual([false]);
    await expect(catalogue.list(other, { limit: 1, after: "acme/a" })).rejects.toMatchObject({
      code: "not_found",
    });
    expect((await catalogue.all({ limit: 10 })).items).toHaveLength(4);
  });
});
