import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { createKeyVerifier } from "../../src/service/http/key_verifier.ts";
import { verifyAudit } from "../../src/store/audit/audit_check.ts";
import { openKeyStore } from "../../src/store/keys/key_store.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { type Desk, openDesk } from "./command.ts";

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
});
afterEach(() => desk.remove());

/** What `perigee keys ... --json` says. */
async function keys(...words: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await desk.perigee(["keys", ...words, "--json"]);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as Record<string, unknown>;
}

const DEFAULT_SCOPES = [
  "infer:read",
  "infer:write",
  "files:read",
  "files:write",
  "satellites:run",
  "satellites:read",
  "satellites:write",
  "secrets:write",
];

describe("perigee keys", () => {
  it("makes, lists and revokes keys while a store owns the folder, which a service follows", async () => {
    const dataDir = join(desk.dir, "perigee-data");
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const clock = new FakeClock({ wallMs: Date.now() });
    const opened = await openKeyStore({ dataDir, clock });
    const verifier = createKeyVerifier(opened);
    const made = await keys("create", "--project", "acme");
    expect(Object.keys(made)).toEqual(["id", "key", "project", "scopes"]);
    expect(made).toMatchObject({ project: "acme", scopes: DEFAULT_SCOPES });
    await clock.advance(500);
    expect(verifier.verify(`Bearer ${made["key"]}`, "v0")).toEqual({
      ...{ keyId: made["id"], project: "acme", scopes: new Set(DEFAULT_SCOPES), isBeta: false },
    });
    const revoked = await keys("revoke", String(made["id"]));
    expect(revoked).toMatchObject({ id: made["id"], state: "revoked" });
    await clock.advance(500);
    expect(verifier.verify(`Bearer ${made["key"]}`, "v0")).toBeUndefined();
    expect(await keys("list", "--project", "acme")).toMatchObject({
      keys: [{ id: made["id"], state: "revoked" }],
    });
    opened.close();
    await store.close();
    const place = { dataDir, clock, disk: systemDisk };
    expect(await verifyAudit(place)).toMatchObject({ isWhole: true, lines: 2 });
    const log = readFileSync(
      join(dataDir, readdirSync(dataDir).find((name) => name.endsWith(".jsonl"))!),
      "utf8",
    );
    expect(
      log
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toMatchObject([
      { event: "key.created", project: "acme", key: made["id"] },
      { event: "key.revoked", project: "acme", key: made["id"] },
    ]);
  });

  it("makes keys with fewer scopes, with more, for the beta, and for a time", async () => {
    const words = ["create", "--project", "acme", "--data", "elsewhere"];
    expect(await keys(...words, "--scopes", "infer:read, files:read", "--expires", "30d")).toMatchObject({
      scopes: ["infer:read", "files:read"],
    });
    const admin = await keys(...words, "--admin", "--beta", "--name", "ops");
    expect(admin["scopes"]).toEqual([...DEFAULT_SCOPES, "admin"]);
    const listed = (await keys("list", "--data", "elsewhere"))["keys"] as Record<string, unknown>[];
    expect(listed.map((key) => [key["name"], key["beta"], key["expires_at"] === null])).toEqual([
      ["default", false, false],
      ["ops", true, true],
    ]);
    const days =
      (Date.parse(String(listed[0]?.["expires_at"])) - Date.parse(String(listed[0]?.["created_at"]))) / 864e5;
    expect(days).toBeCloseTo(30, 3);
  });

  it("shows people the key once, and never again", async () => {
    const { stdout } = await desk.perigee(["keys", "create", "--project", "acme"]);
    const key = /pgk_live_[0-9A-Za-z]{28}/.exec(stdout)?.[0] ?? "";
    expect(stdout).toContain("Keep the key now");
    const listed = await desk.perigee(["keys", "list"]);
    const [head, row] = listed.stdout.split("\n");
    expect(head?.split(/ {2,}/)).toEqual("id,key,project,name,state,created,last used,scopes".split(","));
    expect(row).toContain(`${key.slice(0, 17)}...`);
    expect(`${listed.stdout}${listed.stderr}`).not.toContain(key);
    const dataDir = join(desk.dir, "perigee-data");
    for (const name of readdirSync(dataDir))
      expect(readFileSync(join(dataDir, name)).includes(key.slice(9))).toBe(false);
  });

  it("says what is wrong, and ends with 2", async () => {
    await keys("create", "--project", "acme");
    await keys("create", "--project", "acme");
    const said = await Promise.all(
      [
        ["create"],
        ["create", "--project", "Acme"],
        ["create", "--project", "acme"],
        ["create", "--project", "b", "--scopes", "infer:all"],
        ["create", "--project", "b", "--expires", "soon"],
        ["revoke", "key_none"],
        ["list", "--data", "none"],
      ].map(async (words) => {
        const { code, stderr } = await desk.perigee(["keys", ...words]);
        return `${code} ${stderr.split("\n")[0]}`;
      }),
    );
    expect(said).toEqual([
      "2 error: required option '--project <name>' not specified",
      '2 perigee: usage: project must match ^[a-z0-9][a-z0-9-]{0,62}$, got "Acme"',
      "2 perigee: conflict: project acme has 2 active keys named default: revoke one, or choose another name",
      `2 perigee: usage: --scopes takes ${DEFAULT_SCOPES.join(",")},admin, got "infer:all"`,
      expect.stringContaining("2 error: option '--expires <duration>' argument 'soon' is invalid."),
      '2 perigee: not_found: there is no key "key_none"',
      "2 perigee: not_found: no keys were made in none",
    ]);
    expect(readdirSync(desk.dir)).toEqual(["perigee-data"]);
  });
});

describe("perigee audit", () => {
  it("says that the log is whole, and where it was changed, with 74", async () => {
    expect((await desk.perigee(["audit"])).stdout).toContain("0 lines, whole");
    await keys("create", "--project", "acme");
    await keys("create", "--project", "acme");
    const whole = await desk.perigee(["audit", "--json"]);
    expect([whole.code, JSON.parse(whole.stdout)]).toMatchObject([0, { lines: 2, first_line: 1 }]);
    const name = readdirSync(join(desk.dir, "perigee-data")).find((one) => one.endsWith(".jsonl"))!;
    const path = join("perigee-data", name);
    writeFileSync(join(desk.dir, path), desk.read(path).replace("acme", "evil"));
    const changed = await desk.perigee(["audit"]);
    expect([changed.code, changed.stdout]).toEqual([74, ""]);
    expect(changed.stderr).toBe(`perigee: store_damaged: ${path}: line 1 is not as it was written\n`);
  });
});
