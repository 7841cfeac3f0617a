/** `perigee satellites` and `perigee orbit`, as processes: from the user's own file to an execution by another project. */
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { verifyAudit } from "../../src/store/audit/audit_check.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MAIN, SDK } from "../built.ts";
import { freePort } from "../free_port.ts";
import { type Desk, openDesk } from "./command.ts";

const ZOD = import.meta.resolve("zod");
const LOCAL = { PERIGEE_EGRESS_ALLOW: "127.0.0.0/8" };
const MODULE = `
  import { defineSatellite } from ${JSON.stringify(SDK)};
  import { z } from ${JSON.stringify(ZOD)};
  export const shout = defineSatellite({
    name: "shout",
    description: "Says it louder.",
    input: z.strictObject({ text: z.string().describe("What to say.") }),
    config: z.strictObject({ mark: z.string().default("!").describe("At the end.") }),
    example: { input: { text: "hi" }, config: {} },
    run: async ({ input, config, progress }) => {
      progress(1, 1);
      return { said: input.text.toUpperCase() + config.mark };
    },
  });
  export default [shout];
`;

let desk: Desk;
const children: ChildProcess[] = [];
beforeEach(() => {
  desk = openDesk();
  writeFileSync(join(desk.dir, "mine.mjs"), MODULE);
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  desk.remove();
});

interface Served {
  readonly url: string;
  readonly ended: Promise<number | null>;
  stop(): void;
}

async function start(words: readonly string[], env: Record<string, string>): Promise<Served> {
  const child = spawn(process.execPath, [MAIN, ...words], {
    cwd: desk.dir,
    env: { PATH: process.env["PATH"], NO_COLOR: "1", ...env },
  });
  children.push(child);
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const first = await new Promise<string>((resolve, reject) => {
    child.stdout.once("data", (chunk) => resolve(String(chunk)));
    ended.then((code) => reject(new Error(`ended with ${code}: ${stderr}`)));
  });
  const { url } = JSON.parse(first) as { url: string };
  return { url, ended, stop: () => void child.kill("SIGTERM") };
}

async function satellites(words: string, env: Record<string, string> = LOCAL): Promise<string> {
  const { code, stdout, stderr } = await desk.perigee(["satellites", ...words.split(" ")], { env });
  expect([code, stderr]).toEqual([0, ""]);
  return stdout;
}

async function newKey(...words: string[]): Promise<string> {
  const { stdout } = await desk.perigee(["keys", "create", ...words, "--json"]);
  return (JSON.parse(stdout) as { key: string }).key;
}

describe("perigee satellites", () => {
  it("takes the user's own file to where another project runs it, in the folder and through the service", async () => {
    const operator = await newKey("--project", "ops", "--admin");
    const stranger = await newKey("--project", "other");
    const port = await freePort();
    const endpoint = `http://127.0.0.1:${port}/`;
    const registered = JSON.parse(
      await satellites(`register mine.mjs ${endpoint} --project acme --community --json`),
    ) as { satellites: { satellite: string; state: string; secret: string }[] };
    const [shout] = registered.satellites;
    expect(shout).toMatchObject({ satellite: "satellite/acme/shout", state: "registered" });
    const secrets = { PERIGEE_ORBIT_SECRETS: `shout=${shout?.secret}`, ...LOCAL };
    const host = await start(["orbit", "serve", "mine.mjs", "--port", String(port)], secrets);
    expect(host.url).toBe(`http://127.0.0.1:${port}`);
    expect(await satellites("verify acme/shout")).toBe("satellite/acme/shout is verified\n");
    const service = await start(["serve", "--port", "0", "--data", "perigee-data"], LOCAL);
    const over = (words: string, key = operator) =>
      satellites(`${words} --url ${service.url}`, { PERIGEE_API_KEY: key });
    expect(await over("approve satellite/acme/shout")).toBe("satellite/acme/shout is approved\n");
    expect(await over("list", stranger)).toMatch(
      /^satellite +kind +state +description\nsatellite\/acme\/shout +community +approved +Says it louder\.\n$/,
    );
    expect(await over("describe acme/shout", stranger)).toBe(
      [
        ...["satellite/acme/shout (community, approved)", "Says it louder.", "", "input:"],
        ...["  text  string  required  What to say.", "", "config:"],
        '  mark  string  default "!"  At the end.\n',
      ].join("\n"),
    );
    const path = `${service.url}/v1/satellites/acme/shout/`;
    const headers = { authorization: stranger, "content-type": "application/json" };
    const body = JSON.stringify({ input: { text: "hello" } });
    const posted = await fetch(path, { method: "POST", headers, body });
    const { execution_id } = (await posted.json()) as { execution_id: string };
    await expect
      .poll(async () => (await fetch(`${path}${execution_id}/`, { headers })).json(), { timeout: 10_000 })
      .toMatchObject({ status: "completed", output: { said: "HELLO!" }, retries: 0 });
    const busy = await desk.perigee(["satellites", "list"]);
    expect([busy.code, busy.stderr]).toEqual([
      74,
      expect.stringMatching(
        / is held by pid \d+; go through the service with --url and PERIGEE_API_KEY, or stop it$/m,
      ),
    ]);
    for (const one of [host, service]) {
      one.stop();
      expect(await one.ended).toBe(0);
    }
    const audit = await verifyAudit({
      dataDir: join(desk.dir, "perigee-data"),
      clock: new FakeClock({ wallMs: Date.now() }),
      disk: systemDisk,
    });
    expect(audit).toMatchObject({ isWhole: true });
  });

  it("configures from a file or standard input, shows no value of it, and removes", async () => {
    await newKey("--project", "acme");
    const config = { url: "https://canary.acme.com/", method: "POST" };
    const words = [
      "satellites",
      "configure",
      "poster",
      "--project",
      "acme",
      "--base",
      "perigee/call-webhook",
    ];
    const made = await desk.perigee([...words, "--config", "-"], { stdin: JSON.stringify(config) });
    expect([made.stdout, made.stderr]).toEqual([
      "configured satellite/acme/poster: perigee/call-webhook with method, url fixed\n",
      "",
    ]);
    const shown = await satellites("describe acme/poster --json");
    expect(JSON.parse(shown)).toMatchObject({
      kind: "configured",
      base: { fixed_config: ["method", "url"] },
    });
    expect(shown).not.toContain("canary");
    expect(await satellites("disable acme/poster")).toBe("satellite/acme/poster is disabled\n");
    expect(await satellites("enable acme/poster")).toBe("satellite/acme/poster is registered\n");
    expect(await satellites("remove poster --project acme")).toBe("satellite/acme/poster is removed\n");
    expect(await satellites("list --project acme")).not.toContain("acme/");
  });

  it("says what is wrong, and ends with 2", async () => {
    await newKey("--project", "acme");
    desk.write("none.mjs", ["export const a = 1;"]);
    desk.write("broken.mjs", ["export const a = ;"]);
    const wrong = async (...words: string[]) => {
      const { code, stderr } = await desk.perigee(words, { env: LOCAL });
      return `${code} ${stderr.trimEnd()}`;
    };
    const register = ["satellites", "register"];
    const here = ["http://127.0.0.1:9/", "--project", "acme"];
    expect(await wrong(...register, "none.mjs", ...here)).toMatch(/^2 .*none\.mjs exports no satellite/);
    expect(await wrong(...register, "broken.mjs", ...here)).toMatch(/^2 .*broken\.mjs does not load: /);
    expect(await wrong(...register, "gone.mjs", ...here)).toMatch(/^2 .*gone\.mjs does not load: /);
    expect(await wrong(...register, "mine.mjs", "http://orbit.acme.com/", "--project", "acme")).toMatch(
      /^2 .*url: beyond this machine it must be https/,
    );
    expect(await wrong(...register, "mine.mjs", here[0] as string)).toMatch(
      /^2 .*--project must name the project/,
    );
    expect(await wrong(...register, "mine.mjs", here[0] as string, "--project", "perigee")).toMatch(
      /^2 .*--project/,
    );
    expect(await wrong("satellites", "approve", "shout")).toMatch(/^2 .*is named <namespace>\/<name>/);
    expect(await wrong("satellites", "approve", "acme/shout")).toMatch(/^2 .*not_found/);
    expect(await wrong("orbit", "serve", "mine.mjs")).toMatch(
      /^2 .*PERIGEE_ORBIT_SECRETS must hold the secrets/,
    );
    const quoted = await desk.perigee(["orbit", "serve", "mine.mjs"], {
      env: { ...LOCAL, PERIGEE_ORBIT_SECRETS: 'shout=whsec_Zm9v"' },
    });
    expect([quoted.code, quoted.stderr]).toEqual([
      2,
      expect.stringMatching(
        /the secret for "shout" must be whsec_ and base64, as perigee satellites register/,
      ),
    ]);
    expect(quoted.stderr).not.toContain("Zm9v");
    expect(await wrong("orbit", "serve", "mine.mjs", "--host", "0.0.0.0")).toMatch(/^2 .*refusing to listen/);
    expect(await wrong("keys", "create", "--project", "perigee")).toMatch(/^2 .*project perigee is reserved/);
  });
});

describe("perigee orbit describe", () => {
  it("prints what a file's satellites say of themselves, which registers them as the file does", async () => {
    await newKey("--project", "acme");
    const { code, stdout } = await desk.perigee(["orbit", "describe", "mine.mjs"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ name: "shout", input_schema: { required: ["text"] } });
    writeFileSync(join(desk.dir, "mine.json"), stdout);
    const endpoint = "http://127.0.0.1:9/";
    await satellites(`register mine.mjs ${endpoint} --project acme --community`);
    const again = await satellites(`register mine.json ${endpoint} --project acme --community --json`);
    expect(JSON.parse(again).satellites[0]).not.toHaveProperty("secret");
  });
});
