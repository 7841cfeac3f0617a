/** Satellites over HTTP: registered, configured, described, approved; and who may use which (interface 2.11). */
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { describeSatellite, toWire } from "../../src/satellites/sdk/description.ts";
import type { Caller, Scope } from "../../src/service/http/caller.ts";
import { host } from "../satellites/orbit_world.ts";
import { type CatalogueWorld, openCatalogueWorld } from "./catalogue_world.ts";
import { shout } from "./hosted_satellite.ts";

const PATH = "/v1/satellites";
const satellite = toWire(describeSatellite(shout));
const say = { input: { text: "hi" } };

/** Registers `satellite/acme/shout`, hosts it, and says where. */
async function registered(world: CatalogueWorld, kind: "custom" | "community"): Promise<string> {
  const first = await world.call("plain", "PUT", `${PATH}/acme/shout/`, {
    kind,
    satellite,
    url: "http://127.0.0.1:9/",
  });
  expect(first.status).toBe(200);
  const hosted = await host([shout], { secrets: [{ secret: first.json.secret }] });
  const body = { kind, satellite, url: hosted.url };
  const { status, json } = await world.call("plain", "PUT", `${PATH}/acme/shout/`, body);
  expect([status, json.secret]).toEqual([200, undefined]);
  return hosted.url;
}

const clusterOf = (uses: string, given: object = { input: {} }) => ({
  sla: "5m",
  cluster: { satellites: [{ uses, name: "a", identifier: "a", ...given }] },
});

const decide = (world: CatalogueWorld, action: string, path = "acme/shout") =>
  world.call("operator", "POST", `${PATH}/${path}/${action}/`);

describe("interface 2.11, vendor satellites", () => {
  it("are run only by private-beta users", async () => {
    const world = await openCatalogueWorld();
    const body = { input: {}, config: { url: "a" } };
    expect((await world.run("beta", `${PATH}/perigee/post/`, body)).json).toMatchObject({
      status: "completed",
      output: { url: "a", retries: 1 },
    });
    for (const key of ["plain", "other"]) {
      const { status, json } = await world.call(key, "POST", `${PATH}/perigee/post/`, body);
      expect([status, json.error.code]).toEqual([403, "forbidden"]);
      expect((await world.call(key, "GET", `${PATH}/perigee/post/`)).status).toBe(403);
      expect((await world.call(key, "GET", `${PATH}/`)).json.satellites).toEqual([]);
    }
  });

  it("end for a key that has lost its flag, or was revoked, while an execution waits for its next attempt", async () => {
    const world = await openCatalogueWorld();
    const scopes: ReadonlySet<Scope> = new Set(["satellites:run", "satellites:read"]);
    const flagged: Caller = { keyId: "key_beta", project: "acme", scopes, isBeta: true };
    for (const lose of [
      () => world.keys.set("beta", { ...flagged, isBeta: false }),
      () => world.keys.delete("beta"),
    ]) {
      world.keys.set("beta", flagged);
      const { json } = await world.call("beta", "POST", `${PATH}/perigee/wait/`, { input: {} });
      const one = `${PATH}/perigee/wait/${json.execution_id}/`;
      await expect.poll(async () => (await world.call("plain", "GET", one)).json.retries).toBeGreaterThan(0);
      lose();
      await expect
        .poll(async () => (await world.call("plain", "GET", one)).json)
        .toMatchObject({ status: "failed", error: { code: "forbidden" } });
    }
  });

  it("are members of clusters only of private-beta users, checked again when the member runs", async () => {
    const world = await openCatalogueWorld();
    const declaration = clusterOf("satellite/perigee/wait");
    const refused = await world.call("plain", "POST", "/v1/clusters/", { declaration });
    expect([refused.status, refused.json.error.issues[0].path]).toEqual([422, "cluster.satellites[0].uses"]);
    const { json } = await world.call("beta", "POST", "/v1/clusters/", { declaration });
    const one = `/v1/clusters/${json.cluster_id}/`;
    const member = async () => (await world.call("plain", "GET", one)).json.members[0];
    await expect.poll(async () => (await member()).retries).toBeGreaterThan(0);
    world.keys.delete("beta");
    world.keys.delete("reader");
    await expect.poll(member).toMatchObject({ status: "failed", error: { code: "forbidden" } });
    world.go();
  });
});

describe("interface 2.11, community satellites", () => {
  it("are run by everybody after verification and approval, and by their own project before", async () => {
    const world = await openCatalogueWorld();
    await registered(world, "community");
    const path = `${PATH}/acme/shout/`;
    expect((await world.run("plain", path, say)).json).toMatchObject({ output: { said: "HI!" } });
    const unknown = await world.call("other", "POST", `${PATH}/acme/none/`, say);
    const isClosed = async () => {
      expect(await world.call("other", "POST", path, say)).toEqual(unknown);
      expect(await world.call("other", "GET", path)).toEqual(unknown);
    };
    await isClosed();
    expect((await decide(world, "approve")).status).toBe(409);
    expect((await decide(world, "verify")).json).toMatchObject({ state: "verified" });
    await isClosed();
    expect((await decide(world, "approve")).json).toMatchObject({ state: "approved", kind: "community" });
    expect((await world.run("other", path, say)).json).toMatchObject({ output: { said: "HI!" } });
    expect((await world.call("other", "GET", path)).json).toMatchObject({ url: null, state: "approved" });
    const declaration = clusterOf("satellite/acme/shout", say);
    const cluster = await world.call("other", "POST", "/v1/clusters/", { declaration });
    await expect
      .poll(
        async () =>
          (await world.call("other", "GET", `/v1/clusters/${cluster.json.cluster_id}/`)).json.status,
      )
      .toBe("completed");
    expect((await decide(world, "disable")).json).toMatchObject({ state: "disabled" });
    await isClosed();
    expect((await world.call("plain", "POST", path, say)).status).toBe(404);
    await decide(world, "enable");
    expect((await world.run("other", path, say)).json).toMatchObject({ status: "completed" });
    expect(
      world.events
        .map(({ kind }) => kind)
        .filter((kind) => !["satellite.run", "cluster.submitted"].includes(kind)),
    ).toEqual([
      ...["satellite.put", "satellite.put", "satellite.verified", "satellite.approved", "satellite.disabled"],
      "satellite.enabled",
    ]);
    expect(world.events.at(-2)).toMatchObject({ satellite: "satellite/acme/shout", project: "ops" });
  });
});

describe("interface 2.11, custom satellites", () => {
  it("are run without approval, only by clusters and callers of their own namespace", async () => {
    const world = await openCatalogueWorld();
    await registered(world, "custom");
    const path = `${PATH}/acme/shout/`;
    expect((await world.run("plain", path, say)).json).toMatchObject({ output: { said: "HI!" } });
    const unknown = await world.call("other", "GET", `${PATH}/acme/none/`);
    for (const [method, body] of [
      ["GET", undefined],
      ["POST", say],
      ["PUT", { kind: "custom", satellite, url: "https://orbit.acme.com/" }],
      ["DELETE", undefined],
    ] as const)
      expect([method, await world.call("other", method, path, body)]).toEqual([method, unknown]);
    expect((await decide(world, "verify")).status).toBe(409);
    const uses = "satellite/acme/shout";
    const declaration = {
      sla: "5m",
      cluster: { satellites: [{ uses, name: "a", identifier: "a", ...say }] },
    };
    const foreign = await world.call("other", "POST", "/v1/clusters/", { declaration });
    expect([foreign.status, foreign.text.includes("HI")]).toEqual([422, false]);
    const own = await world.call("plain", "POST", "/v1/clusters/", { declaration });
    expect(own.status).toBe(200);
    await expect
      .poll(
        async () => (await world.call("plain", "GET", `/v1/clusters/${own.json.cluster_id}/`)).json.status,
      )
      .toBe("completed");
  });
});

describe("interface 2.11, configured satellites", () => {
  const base = "satellite/perigee/post";
  const config = { url: "https://canary.acme.com/in", token: "secret://token" };
  const path = `${PATH}/acme/poster/`;

  it("are made by a call, run only by the same namespace, and never show what is fixed", async () => {
    const world = await openCatalogueWorld();
    const made = await world.call("beta", "PUT", path, {
      kind: "configured",
      base,
      config,
      description: "Posts.",
    });
    expect(made.json).toMatchObject({
      ...{ satellite: "satellite/acme/poster", kind: "configured", description: "Posts." },
      base: { satellite: base, fixed_config: ["token", "url"] },
    });
    expect(Object.keys(made.json.config_schema.properties)).toEqual(["retries"]);
    const { json } = await world.run("beta", path, { input: {}, config: { retries: 3, url: "mine" } });
    expect(json).toMatchObject({ output: { url: config.url, hasToken: true, retries: 3 } });
    for (const view of [
      made,
      await world.call("beta", "GET", path),
      await world.call("beta", "GET", `${PATH}/`),
    ])
      expect(view.text).not.toMatch(/canary|secret:/);
    const declaration = clusterOf("satellite/acme/poster");
    for (const [key, status] of [
      ["beta", 200],
      ["plain", 422],
      ["other", 422],
    ] as const)
      expect([key, (await world.call(key, "POST", "/v1/clusters/", { declaration })).status]).toEqual([
        key,
        status,
      ]);
    const unknown = await world.call("other", "GET", `${PATH}/acme/none/`);
    expect(await world.call("other", "POST", path, { input: {} })).toEqual(unknown);
    expect((await world.call("plain", "POST", path, { input: {} })).status).toBe(403);
    expect((await world.call("plain", "PUT", path, { kind: "configured", base, config })).status).toBe(403);
  });

  it("are refused with the field that is wrong", async () => {
    const world = await openCatalogueWorld();
    const wrong = async (body: object | string) => {
      const { status, json } = await world.call("beta", "PUT", path, body);
      return [status, json.error.param];
    };
    expect(await wrong({ kind: "configured", base: "perigee/post", config })).toEqual([422, "base"]);
    expect(await wrong({ kind: "configured", base, config: { nothing: 1 } })).toEqual([
      422,
      "config.nothing",
    ]);
    expect(await wrong({ kind: "configured", base, config: { retries: 10 } })).toEqual([
      422,
      "config.retries",
    ]);
    expect(await wrong({ kind: "other" })).toEqual([422, "kind"]);
    const bomb = `{"kind":"configured","base":"${base}","config":{"url":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`;
    expect(await wrong(bomb)).toEqual([400, "body"]);
    expect(await wrong({ kind: "custom", satellite, url: "https://10.0.0.1/" })).toEqual([
      422,
      "satellite.name",
    ]);
    const named = { ...satellite, name: "poster" };
    expect(await wrong({ kind: "custom", satellite: named, url: "https://10.0.0.1/" })).toEqual([422, "url"]);
    expect(await wrong({ kind: "custom", satellite: { ...named, input_schema: 1 }, url: "x" })).toEqual([
      422,
      "satellite.input_schema",
    ]);
    expect((await wrong({ kind: "configured", base: "satellite/other/x", config }))[0]).toBe(404);
  });
});

describe("the catalogue over HTTP", () => {
  it("describes a satellite with its schemas and its example, and lists page by page", async () => {
    const world = await openCatalogueWorld();
    const url = await registered(world, "custom");
    const { json } = await world.call("reader", "GET", `${PATH}/acme/shout`);
    expect(json).toEqual({
      ...{ satellite: "satellite/acme/shout", kind: "custom", state: "registered", url, base: null },
      description: "Says it louder.",
      input_schema: satellite.input_schema,
      config_schema: satellite.config_schema,
      output_schema: satellite.output_schema,
      ...{ is_repeatable: true, example: shout.example },
    });
    const first = await world.call("beta", "GET", `${PATH}/?limit=2`);
    expect(first.json).toMatchObject({ has_more: true, last_id: "perigee/post" });
    const rest = await world.call("beta", "GET", `${PATH}/?limit=2&after=${first.json.last_id}`);
    expect(rest.json).toMatchObject({
      has_more: false,
      satellites: [{ satellite: "satellite/perigee/wait" }],
    });
    expect((await world.call("beta", "GET", `${PATH}/perigee/`)).json.satellites).toHaveLength(2);
    expect((await world.call("other", "GET", `${PATH}/other/`)).json.satellites).toEqual([]);
    const unknown = await world.call("other", "GET", `${PATH}/nobody/`);
    expect(await world.call("other", "GET", `${PATH}/acme/`)).toEqual(unknown);
  });

  it("lets a key that reads read, its project write, and only the operator decide and see all", async () => {
    const world = await openCatalogueWorld();
    await registered(world, "community");
    for (const action of ["verify", "approve", "disable", "enable"]) {
      expect((await world.call("plain", "POST", `${PATH}/acme/shout/${action}`)).status).toBe(403);
      expect((await world.call("", "POST", `${PATH}/acme/shout/${action}`)).status).toBe(401);
      expect((await decide(world, action, "acme/none")).status).toBe(404);
    }
    expect((await world.call("reader", "DELETE", `${PATH}/acme/shout/`)).status).toBe(403);
    expect((await world.call("plain", "GET", `${PATH}/?all=true`)).status).toBe(403);
    const { json } = await world.call("operator", "GET", `${PATH}/?all=true`);
    expect(json.satellites.map((one: { satellite: string }) => one.satellite)).toEqual([
      "satellite/acme/shout",
      "satellite/perigee/post",
      "satellite/perigee/wait",
    ]);
    const removed = await world.call("plain", "DELETE", `${PATH}/acme/shout/`);
    expect(removed.json).toEqual({ satellite: "satellite/acme/shout", deleted: true });
    expect((await world.call("plain", "GET", `${PATH}/acme/shout/`)).status).toBe(404);
    expect((await world.call("operator", "PUT", `${PATH}/perigee/x/`, {})).status).toBe(404);
  });

  it("fault 103: a namespace is left by no spelling of a name: everything else is not found", async () => {
    const world = await openCatalogueWorld();
    await registered(world, "custom");
    const { port } = new URL(world.url);
    const unknown = await world.call("other", "GET", `${PATH}/acme/none/`);
    for (const name of [
      ...[
        "acme/Shout",
        "ACME/shout",
        "acme/shou%74%2f",
        "acme%2fshout/",
        "other/..%2facme%2fshout",
        "acme/sho\u017ft",
      ],
      ...[
        "acme/shout%00",
        "acme/%73hout%20",
        "other%2f../acme/shout",
        "acme/-shout",
        "ａｃｍｅ/shout",
        "acme/shout.",
      ],
    ])
      for (const method of name.replace(/\/$/, "").split("/").length === 2 ? ["GET", "POST"] : ["GET"]) {
        const path = `${PATH}/${encodeURI(name).replaceAll("%25", "%")}`;
        const answer = await world.call("other", method, path, method === "POST" ? say : undefined);
        expect([name, answer]).toEqual([name, unknown]);
      }
    // As bytes, since a client would tidy them up.
    for (const path of [
      `${PATH}/other/../acme/shout/`,
      `${PATH}//acme/shout/`,
      `${PATH}/other/%2e%2e/acme/shout`,
    ])
      expect([path, await rawStatus(Number(port), path)]).toEqual([path, 404]);
  });
});

function rawStatus(port: number, path: string): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("data", (chunk) => {
      socket.destroy();
      resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(chunk.toString("latin1"))?.[1]));
    });
    socket.write(`GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: other\r\nconnection: close\r\n\r\n`);
  });
}
