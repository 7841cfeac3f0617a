/** Secrets on the disk: what opens them, what does not, and what can be seen of them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeSecretKey } from "../../src/satellites/secrets/secret_key.ts";
import { rotateSecretsKey } from "../../src/satellites/secrets/secret_rotation.ts";
import { openSecrets } from "../../src/satellites/secrets/secret_store.ts";
import type { Secrets } from "../../src/satellites/secrets/secrets.ts";
import { createVault } from "../../src/satellites/secrets/vault.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { RecordStore, StoredRecord } from "../../src/store/records.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const KEY = Buffer.alloc(32, 1).toString("base64");
const OTHER_KEY = Buffer.alloc(32, 2).toString("hex");

let dataDir: string;
let store: RecordStore;
let clock: FakeClock;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-secrets-"));
  store = createMemoryStore();
  clock = new FakeClock();
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

function open(
  env: Record<string, string> = { PERIGEE_SECRETS_KEY: KEY },
  isShared = false,
): Promise<Secrets> {
  return openSecrets({ store, dataDir, clock, env, isShared });
}

async function recordOf(project: string, name: string): Promise<StoredRecord> {
  const found = await store.record(project, "secret", `${project}/${name}`);
  if (found === undefined) throw new Error("no record");
  return found;
}

describe("secrets", () => {
  it("are set, listed by name, replaced, revealed to the runner and removed", async () => {
    const secrets = await open();
    await secrets.set("acme", "smtp-password", "first ünd long");
    await secrets.set("acme", "api-token", "second");
    const createdWallMs = clock.wallMs();
    await clock.advance(5_000);
    await secrets.set("acme", "smtp-password", "third");
    expect(await secrets.list("acme")).toEqual([
      { name: "api-token", createdWallMs, updatedWallMs: createdWallMs },
      { name: "smtp-password", createdWallMs, updatedWallMs: createdWallMs + 5_000 },
    ]);
    expect(await (await open()).reveal("acme", "smtp-password")).toBe("third");
    await secrets.remove("acme", "smtp-password");
    expect(await secrets.reveal("acme", "smtp-password")).toBeUndefined();
    await expect(secrets.remove("acme", "smtp-password")).rejects.toMatchObject({ code: "not_found" });
  });

  it("are those of one project: another's are not there", async () => {
    const secrets = await open();
    await secrets.set("acme", "token", "value-of-acme");
    await secrets.set("other", "token", "value-of-other");
    expect(await secrets.reveal("other", "token")).toBe("value-of-other");
    expect(await secrets.reveal("third", "token")).toBeUndefined();
    expect(await secrets.list("third")).toEqual([]);
    await expect(secrets.remove("third", "token")).rejects.toMatchObject({ code: "not_found" });
  });

  it("refuse invalid names and values, and show nothing of the value", async () => {
    const secrets = await open();
    for (const name of ["", "A", "a/b", "../a", "a".repeat(64), "-a", "a\n"])
      await expect(secrets.set("acme", name, "value")).rejects.toMatchObject({ code: "invalid_request" });
    for (const value of ["", "canary\ud800"])
      await expect(secrets.set("acme", "a", value)).rejects.toSatisfy(
        (error: Error & { code: string }) =>
          error.code === "invalid_request" && !error.message.includes("canary"),
      );
    await expect(secrets.set("acme", "a", "ü".repeat(32_769))).rejects.toMatchObject({ code: "too_large" });
    await secrets.set("acme", "a", "x".repeat(65_536));
    expect(await secrets.reveal("acme", "__proto__")).toBeUndefined();
  });

  it("are at most 200 in a project, also when they come at once", async () => {
    const secrets = await open();
    for (let index = 0; index < 198; index += 1) await secrets.set("acme", `s${index}`, "value");
    const last = await Promise.allSettled(["x", "y", "z"].map((name) => secrets.set("acme", name, "value")));
    expect(last.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    expect(last[2]).toMatchObject({ reason: { code: "too_many" } });
    await secrets.set("acme", "s1", "replaced");
    await secrets.set("other", "z", "value");
  });

  it("do not open when their ciphertext is moved to another name or project, or changed by a bit", async () => {
    const secrets = await open();
    await secrets.set("acme", "a", "value");
    await secrets.set("acme", "b", "value");
    await secrets.set("other", "a", "value");
    const sealed = (await recordOf("acme", "a")).payload ?? new Uint8Array();
    const put = async (record: StoredRecord, payload: Uint8Array): Promise<unknown> => {
      await store.change([{ kind: "put", record: { ...record, payload } }]);
      return await secrets.reveal(record.project, record.id.split("/")[1] ?? "");
    };
    const damaged = { code: "store_damaged" };
    await expect(put(await recordOf("acme", "b"), sealed)).rejects.toMatchObject(damaged);
    await expect(put(await recordOf("other", "a"), sealed)).rejects.toMatchObject(damaged);
    const place = await recordOf("acme", "a");
    for (let index = 0; index < sealed.length; index += 1) {
      const changed = Uint8Array.from(sealed, (byte, at) => (at === index ? byte ^ 1 : byte));
      await expect(put(place, changed)).rejects.toMatchObject(damaged);
    }
    await expect(put(place, sealed.subarray(0, 20))).rejects.toMatchObject(damaged);
    expect(await put(place, sealed)).toBe("value");
  });

  it("look different each time, and fill only the payload column", async () => {
    const secrets = await open();
    await secrets.set("acme", "a", "canary-value");
    const before = await recordOf("acme", "a");
    await secrets.set("acme", "a", "canary-value");
    const after = await recordOf("acme", "a");
    expect(Buffer.from(after.payload ?? [])).not.toEqual(Buffer.from(before.payload ?? []));
    expect(JSON.stringify([after.id, after.body, after.parent])).not.toContain("canary");
  });

  it("are nowhere in the files of the data folder, also after replacing and removing", async () => {
    const sqlite = await openSqliteStore({ dataDir, reserveBytes: 0 });
    store = sqlite;
    const secrets = await open({});
    for (const value of ["canary-one", "canary-two"]) await secrets.set("acme", "a", value);
    await secrets.set("acme", "b", "canary-three");
    await secrets.remove("acme", "b");
    expect(await secrets.reveal("acme", "a")).toBe("canary-two");
    const texts = (): string[] =>
      readdirSync(dataDir).map((name) => readFileSync(join(dataDir, name), "latin1"));
    expect(texts().filter((text) => text.includes("canary"))).toEqual([]);
    await sqlite.close();
    expect(texts().filter((text) => text.includes("canary"))).toEqual([]);
  });
});

describe("the key of secrets", () => {
  it("is base64 or hexadecimal in the environment, or in a file that it names", async () => {
    await (await open()).set("acme", "a", "value");
    const hexadecimal = Buffer.from(KEY, "base64").toString("hex");
    const path = join(dataDir, "key");
    writeFileSync(path, `${KEY}\n`);
    for (const env of [
      { PERIGEE_SECRETS_KEY: hexadecimal },
      { PERIGEE_SECRETS_KEY: KEY.replace("=", "") },
      { PERIGEE_SECRETS_KEY_FILE: path },
    ])
      expect(await (await open(env)).reveal("acme", "a")).toBe("value");
    expect(readdirSync(dataDir)).toEqual(["key"]);
  });

  it("is made in the data folder when it is not set, readable only by its owner", async () => {
    await (await open({})).set("acme", "a", "value");
    const path = join(dataDir, "secrets.key");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(dataDir)).toEqual(["secrets.key"]);
    expect(await (await open({})).reveal("acme", "a")).toBe("value");
    rmSync(path);
    await expect(open({})).rejects.toThrow(/which is missing/);
    expect(readdirSync(dataDir)).toEqual([]);
  });

  it.each([
    ["too short", { PERIGEE_SECRETS_KEY: "canary-short" }],
    ["empty", { PERIGEE_SECRETS_KEY: "" }],
    ["no base64", { PERIGEE_SECRETS_KEY: "!".repeat(44) }],
    ["a file that is not there", { PERIGEE_SECRETS_KEY_FILE: "/nowhere/key" }],
    ["given twice", { PERIGEE_SECRETS_KEY: KEY, PERIGEE_SECRETS_KEY_FILE: "/nowhere/key" }],
  ])("is refused when it is %s, without being shown", async (_what, env) => {
    await expect(open(env as unknown as Record<string, string>)).rejects.toSatisfy(
      (error: Error & { code: string }) =>
        error.code === "invalid_config" && !/canary|!!|AQEB/.test(error.message),
    );
  });

  it("is refused at the start when it is another than the one of the secrets", async () => {
    await (await open()).set("acme", "a", "value");
    await expect(open({ PERIGEE_SECRETS_KEY: OTHER_KEY })).rejects.toMatchObject({ code: "invalid_config" });
    await expect(open({ PERIGEE_SECRETS_KEY: OTHER_KEY })).rejects.toThrow(/rotate-key/);
    const ofFleet = open({ PERIGEE_SECRETS_KEY: OTHER_KEY }, true); // that command is for folders
    await expect(ofFleet).rejects.toThrow(/^(?!.*rotate-key).*In production/);
    await expect(open({})).rejects.toThrow(/missing/);
    expect(await (await open()).reveal("acme", "a")).toBe("value");
  });

  it("may be another one as long as there is nothing under the first", async () => {
    await open({});
    const secrets = await open();
    await secrets.set("acme", "a", "value");
    expect(await (await open()).reveal("acme", "a")).toBe("value");
  });
});

describe("changing the key", () => {
  const BOTH = { PERIGEE_SECRETS_KEY: OTHER_KEY, PERIGEE_SECRETS_OLD_KEY: KEY };
  const rotate = (env: Record<string, string>) => rotateSecretsKey({ store, dataDir, clock, env });

  it("seals every secret again, and the old key opens nothing more", async () => {
    const secrets = await open();
    for (let index = 0; index < 250; index += 1)
      await secrets.set(projectOf(index), `s${index}`, `value ${index}`);
    await secrets.set("other", "s0", "of another");
    const listed = await secrets.list("acme");
    expect(await rotate(BOTH)).toMatchObject({ resealed: 251, place: "environment" });
    await expect(open()).rejects.toMatchObject({ code: "invalid_config" });
    const after = await open({ PERIGEE_SECRETS_KEY: OTHER_KEY });
    expect(await after.reveal(projectOf(249), "s249")).toBe("value 249");
    expect(await after.reveal("other", "s0")).toBe("of another");
    expect(await after.list("acme")).toEqual(listed);
    expect(await rotate(BOTH)).toMatchObject({ resealed: 0 });
    expect(await rotate({ PERIGEE_SECRETS_KEY: OTHER_KEY })).toMatchObject({ resealed: 0 });
  });

  it("seals again what signs webhooks and calls to hosts", async () => {
    await (await open()).set("acme", "a", "value");
    const [old, next] = [KEY, OTHER_KEY].map((text, index) =>
      createVault(makeSecretKey(Buffer.from(text, index === 0 ? "base64" : "hex"))),
    );
    for (const collection of ["webhook_endpoint", "satellite"]) {
      const place = { collection, project: "acme", id: "acme/one" };
      const payload = old?.seal(place, `of ${collection}`);
      const record = { ...place, parent: "", createdWallMs: 1, body: "{}", payload };
      await store.change([{ kind: "put", record }]);
    }
    expect(await rotate(BOTH)).toMatchObject({ resealed: 3 });
    for (const collection of ["webhook_endpoint", "satellite"]) {
      const record = await store.record("acme", collection, "acme/one");
      expect(record && next?.open(record)).toBe(`of ${collection}`);
      expect(record).toMatchObject({ body: "{}", createdWallMs: 1 });
    }
  });

  it("changes from the folder's key to a new one, to the operator's, and back", async () => {
    await (await open({})).set("acme", "a", "value");
    const first = readFileSync(join(dataDir, "secrets.key"), "utf8");
    expect(await rotate({})).toMatchObject({ resealed: 1, place: "data folder" });
    expect(readdirSync(dataDir)).toEqual(["secrets.key"]);
    expect(readFileSync(join(dataDir, "secrets.key"), "utf8")).not.toBe(first);
    expect(await (await open({})).reveal("acme", "a")).toBe("value");
    expect(await rotate({ PERIGEE_SECRETS_KEY: KEY })).toMatchObject({ resealed: 1, place: "environment" });
    expect(readdirSync(dataDir)).toEqual([]);
    expect(await (await open()).reveal("acme", "a")).toBe("value");
    expect(await rotate({ PERIGEE_SECRETS_OLD_KEY: KEY })).toMatchObject({ place: "data folder" });
    expect(await (await open({})).reveal("acme", "a")).toBe("value");
  });

  it("changes nothing without the old key, or with a wrong one", async () => {
    await (await open()).set("acme", "a", "value");
    await expect(rotate({})).rejects.toThrow(/PERIGEE_SECRETS_OLD_KEY/);
    await expect(rotate({ PERIGEE_SECRETS_KEY: OTHER_KEY })).rejects.toThrow(/PERIGEE_SECRETS_OLD_KEY/);
    await expect(rotate({ ...BOTH, PERIGEE_SECRETS_OLD_KEY: "9".repeat(64) })).rejects.toThrow(/under key/);
    expect(readdirSync(dataDir)).toEqual([]);
    expect(await (await open()).reveal("acme", "a")).toBe("value");
  });

  it.each([
    ["the operator's keys", { PERIGEE_SECRETS_KEY: KEY }, BOTH, { PERIGEE_SECRETS_KEY: OTHER_KEY }],
    ["keys in the folder", {}, {}, {}],
    ["from the folder to the operator's", {}, { PERIGEE_SECRETS_KEY: KEY }, { PERIGEE_SECRETS_KEY: KEY }],
  ])("goes on after a stop at any step: %s", async (_what, before, during, after) => {
    for (let stopAt = 1; ; stopAt += 1) {
      rmSync(dataDir, { recursive: true });
      dataDir = mkdtempSync(join(tmpdir(), "perigee-secrets-"));
      const whole = createMemoryStore();
      store = whole;
      const secrets = await open(before);
      for (let index = 0; index < 230; index += 1)
        await secrets.set(projectOf(index), `s${index}`, `value ${index}`);
      store = failingAfter(whole, stopAt);
      const ended = await rotate(during).then(
        () => true,
        () => false,
      );
      store = whole;
      if (stopAt > 1 && !ended) await expect(open(after)).rejects.toThrow(/is not finished/);
      await rotate(during);
      const opened = await open(after);
      for (const index of [0, 99, 100, 229])
        expect(await opened.reveal(projectOf(index), `s${index}`)).toBe(`value ${index}`);
      if (ended) break;
    }
  });

  it("is over for a start that finds the new key not yet in the place of the old one", async () => {
    await (await open({})).set("acme", "a", "value");
    const old = readFileSync(join(dataDir, "secrets.key"));
    await rotate({});
    writeFileSync(join(dataDir, "secrets.key.new"), readFileSync(join(dataDir, "secrets.key")));
    writeFileSync(join(dataDir, "secrets.key"), old);
    expect(await (await open({})).reveal("acme", "a")).toBe("value");
    expect(readdirSync(dataDir)).toEqual(["secrets.key"]);
  });
});

function projectOf(index: number): string {
  return index < 150 ? "acme" : "second";
}

/** A store that takes so many changes and no more. */
function failingAfter(whole: RecordStore, changes: number): RecordStore {
  let left = changes;
  return {
    record: (...words) => whole.record(...words),
    records: (...words) => whole.records(...words),
    change: async (given) => {
      left -= 1;
      if (left < 0) throw new Error("stopped");
      await whole.change(given);
    },
  };
}
