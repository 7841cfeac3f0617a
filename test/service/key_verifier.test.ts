import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { createKeyVerifier, type KeyVerifier } from "../../src/service/http/key_verifier.ts";
import { makeApiKey } from "../../src/store/keys/api_key.ts";
import { type KeyStore, openKeyStore } from "../../src/store/keys/key_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-verifier-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let clock: FakeClock;
let keys: KeyStore;
let verifier: KeyVerifier;
beforeEach(async () => {
  clock = new FakeClock();
  keys = await openKeyStore({ dataDir: mkdtempSync(join(root, "data-")), clock });
  verifier = createKeyVerifier(keys);
});
afterEach(() => keys.close());

const wanted = { project: "acme", name: "default", scopes: ["infer:read", "files:write"], isBeta: true };

describe("the key verifier", () => {
  it("returns the caller of a key: its project, its scopes, whether it is in the beta", () => {
    const { key, stored } = keys.create(wanted);
    expect(verifier.verify(`Bearer ${key}`, "v0")).toEqual({
      ...{ keyId: stored.id, project: "acme", isBeta: true },
      scopes: new Set(["infer:read", "files:write"]),
    });
  });

  it("says of a key whether it is active and in the beta now", () => {
    const { stored } = keys.create(wanted);
    const plain = keys.create({ ...wanted, name: "plain", isBeta: false });
    expect(verifier.isBetaKey?.(stored.id)).toBe(true);
    expect(verifier.isBetaKey?.(plain.stored.id)).toBe(false);
    expect(verifier.isBetaKey?.("key_none")).toBe(false);
    keys.revoke(stored.id);
    expect(verifier.isBetaKey?.(stored.id)).toBe(false);
  });

  it("takes only Bearer on v0 and only the bare key on v1", () => {
    const { key } = keys.create(wanted);
    const taken = (header: string) =>
      [verifier.verify(header, "v0"), verifier.verify(header, "v1")].map(Boolean);
    expect(taken(`Bearer ${key}`)).toEqual([true, false]);
    expect(taken(`bearer ${key}`)).toEqual([true, false]);
    expect(taken(key)).toEqual([false, true]);
  });

  it("answers everything else alike: no header, another form, another scheme, unknown, revoked, expired", async () => {
    const { key } = keys.create({ ...wanted, expiresWallMs: clock.wallMs() + 1_000 });
    const revoked = keys.create({ ...wanted, name: "revoked" });
    keys.revoke(revoked.stored.id);
    const headers = [
      ...[undefined, "", " ", "Bearer", "Bearer ", `Bearer  ${key}`, ` Bearer ${key}`, `Bearer ${key} `],
      ...[`Basic ${key}`, `Bearer ${key}, Bearer ${key}`, `Bearer ${key}\u0000`, `Bearer ${makeApiKey()}`],
      ...[`Bearer ${revoked.key}`, revoked.key, makeApiKey(), `Bearer Bearer ${key}`, "x".repeat(16_384)],
    ];
    for (const header of headers)
      for (const area of ["v0", "v1"] as const) expect(verifier.verify(header, area), header).toBeUndefined();
    expect(verifier.verify(`Bearer ${key}`, "v0")).toBeDefined();
    await clock.advance(1_000);
    expect(verifier.verify(`Bearer ${key}`, "v0")).toBeUndefined();
  });

  it("looks up nothing for a key whose checksum is wrong", async () => {
    const closed = await openKeyStore({ dataDir: mkdtempSync(join(root, "data-")), clock });
    const { key } = closed.create(wanted);
    closed.close();
    await clock.advance(500);
    const onClosed = createKeyVerifier(closed);
    const broken = `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`;
    expect(onClosed.verify(`Bearer ${broken}`, "v0")).toBeUndefined();
    expect(() => onClosed.verify(`Bearer ${key}`, "v0")).toThrow();
  });
});
