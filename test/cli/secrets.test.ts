/** `perigee secrets`, in the folder and through a service. */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { systemDisk } from "../../src/disk.ts";
import { openSecrets } from "../../src/satellites/secrets/secret_store.ts";
import { verifyAudit } from "../../src/store/audit/audit_check.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { type Desk, type Ended, openDesk } from "./command.ts";

const KEY = Buffer.alloc(32, 1).toString("base64");
const CANARY = "canary-value";

let desk: Desk;
beforeEach(async () => {
  desk = openDesk();
  expect((await desk.perigee(["keys", "create", "--project", "acme", "--json"])).code).toBe(0);
});
afterEach(() => desk.remove());

const own = ["--project", "acme"];

function set(name: string, options: Parameters<Desk["perigee"]>[1], ...words: string[]): Promise<Ended> {
  return desk.perigee(["secrets", "set", name, ...own, ...words], options);
}

async function revealed(name: string, env: Record<string, string> = {}): Promise<string | undefined> {
  const dataDir = join(desk.dir, "perigee-data");
  const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
  try {
    const secrets = await openSecrets({ store, dataDir, clock: systemClock, env });
    return await secrets.reveal("acme", name);
  } finally {
    await store.close();
  }
}

describe("perigee secrets", () => {
  it("sets from standard input or the environment, lists names, removes, and prints no value", async () => {
    const ended = [
      await set("token", { stdin: `${CANARY}\n` }),
      await set("password", { env: { MAIL_PASSWORD: `${CANARY}-2` } }, "--from-env", "MAIL_PASSWORD"),
      await desk.perigee(["secrets", "list", ...own]),
      await desk.perigee(["secrets", "list", ...own, "--json"]),
    ];
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(ended[0]?.stdout).toBe("token is set: satellites use it as secret://token\n");
    expect(ended[2]?.stdout).toMatch(/^name +created +updated\npassword +2\S+ +2\S+\ntoken +/);
    expect(JSON.parse(ended[3]?.stdout ?? "")).toMatchObject({
      secrets: [{ name: "password" }, { name: "token" }],
    });
    expect(JSON.stringify(ended)).not.toContain("canary");
    expect([await revealed("token"), await revealed("password")]).toEqual([CANARY, `${CANARY}-2`]);
    expect((await desk.perigee(["secrets", "remove", "token", ...own])).stdout).toBe("token is removed\n");
    expect((await desk.perigee(["secrets", "remove", "token", ...own])).code).toBe(2);
    const dataDir = join(desk.dir, "perigee-data");
    expect(statSync(join(dataDir, "secrets.key")).mode & 0o777).toBe(0o600);
    expect(await verifyAudit({ dataDir, clock: systemClock, disk: systemDisk })).toMatchObject({ lines: 4 });
    const log = readdirSync(dataDir).find((name) => name.endsWith(".jsonl"));
    const last = readFileSync(join(dataDir, log ?? ""), "utf8")
      .trim()
      .split("\n")
      .at(-1);
    expect(JSON.parse(last ?? "")).toMatchObject({
      event: "secret.removed",
      project: "acme",
      secret: "token",
    });
  });

  it("takes no value from its arguments, and says what is missing", async () => {
    const refused = [
      await set("token", { stdin: "" }),
      await set("UPPER", { stdin: CANARY }),
      await set("token", {}, "--from-env", "NOT_SET"),
      await set("token", { stdin: CANARY }, CANARY),
      await desk.perigee(["secrets", "set", "token"], { stdin: CANARY }),
      await desk.perigee(["secrets", "list", ...own, "--data", "nowhere"]),
      await desk.perigee(["secrets", "list", "--url", "http://127.0.0.1:1"]),
      await desk.perigee(["secrets", "list", "--url", "http://perigee.example.org"], {
        env: { PERIGEE_API_KEY: "pgk_live_x" },
      }),
      await desk.perigee(["secrets", "list", ...own, "--url", "http://127.0.0.1:1"]),
    ];
    expect(refused.map(({ code }) => code)).toEqual(refused.map(() => 2));
    const told = refused.map(({ stderr }) => stderr).filter((_, index) => index !== 3);
    expect(told.join("")).not.toContain("canary");
    expect(refused[4]?.stderr).toContain("--project");
    expect(refused[6]?.stderr).toContain("PERIGEE_API_KEY");
    expect(refused[7]?.stderr).toContain("over http");
    expect(readdirSync(desk.dir)).toEqual(["perigee-data"]);
  });

  it("names the way through the service while one holds the folder", async () => {
    const store = await openSqliteStore({ dataDir: join(desk.dir, "perigee-data"), reserveBytes: 0 });
    const { code, stderr } = await set("token", { stdin: CANARY });
    await store.close();
    expect(code).toBe(74);
    expect(stderr).toMatch(/data_dir_in_use.*--url and PERIGEE_API_KEY/);
  });

  it("goes through a service with --url and the key of the environment", async () => {
    const seen: unknown[] = [];
    const server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      seen.push([request.method, request.url, request.headers.authorization, body]);
      const isKnown = request.headers.authorization === "pgk_live_good";
      response.writeHead(isKnown ? 200 : 401, { "content-type": "application/json" });
      const time = "2026-01-01T00:00:00.000Z";
      const secrets = [{ name: "token", created_at: time, updated_at: time }];
      response.end(JSON.stringify(isKnown ? { secrets } : { error: { message: "a valid key is needed" } }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const env = { PERIGEE_API_KEY: "pgk_live_good" };
    const ended = [
      await desk.perigee(["secrets", "set", "token", "--url", url], { env, stdin: CANARY }),
      await desk.perigee(["secrets", "list", "--url", url], { env }),
      await desk.perigee(["secrets", "remove", "token", "--url", url], { env }),
      await desk.perigee(["secrets", "list", "--url", url], { env: { PERIGEE_API_KEY: "pgk_live_bad" } }),
    ];
    server.close();
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 2]);
    expect(ended[1]?.stdout).toContain("token");
    expect(ended[3]?.stderr).toContain("unauthenticated: a valid key is needed");
    expect(seen.slice(0, 3)).toEqual([
      ["PUT", "/v1/secrets/token", "pgk_live_good", JSON.stringify({ value: CANARY })],
      ["GET", "/v1/secrets", "pgk_live_good", ""],
      ["DELETE", "/v1/secrets/token", "pgk_live_good", ""],
    ]);
  });

  it("changes the key, and the old one is refused from then on", async () => {
    await set("token", { stdin: CANARY });
    const rotated = await desk.perigee(["secrets", "rotate-key", "--json"], {
      env: { PERIGEE_SECRETS_KEY: KEY },
    });
    expect(JSON.parse(rotated.stdout)).toMatchObject({ resealed: 1, place: "environment" });
    expect(rotated.stdout + rotated.stderr).not.toContain(KEY);
    const without = await set("token", { stdin: CANARY });
    expect([without.code, without.stderr]).toEqual([2, expect.stringContaining("invalid_config")]);
    expect(await revealed("token", { PERIGEE_SECRETS_KEY: KEY })).toBe(CANARY);
  });
});
