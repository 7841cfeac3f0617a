/**
 * The clusters of docs/examples, run to their end over HTTP against counterparts of every kind they talk to.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { releaseNotes } from "../../docs/examples/clusters/release_notes.ts";
import { systemClock } from "../../src/clock.ts";
import { createOrbitHost } from "../../src/satellites/orbit/host.ts";
import { describeSatellite, toWire } from "../../src/satellites/sdk/description.ts";
import { type Caller, SCOPES } from "../../src/service/http/caller.ts";
import { createPerigeeService } from "../../src/service/index.ts";
import { openMailServer } from "../satellites/builtin/mail_server.ts";
import { localHttp } from "../satellites/orbit_world.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const EXAMPLES = join(ROOT, "docs/examples/clusters");
const KEY = "key";
const CALLER: Caller = {
  ...{ keyId: "k1", project: "acme", isBeta: true },
  scopes: new Set(SCOPES),
};

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Member {
  readonly identifier: string;
  readonly status: string;
  // biome-ignore lint/suspicious/noExplicitAny: outputs of many satellites
  readonly output: any;
}

interface Service {
  readonly outbox: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of many routes
  call(method: string, path: string, body?: unknown): Promise<any>;
  upload(text: string): Promise<string>;
  /** The status of the run, and its members by identifier, once it is final. */
  run(
    file: string,
    input: object,
  ): Promise<{ readonly status: string; readonly members: Record<string, Member> }>;
}

async function openService(mailPort?: number): Promise<Service> {
  const [dataDir, outbox] = ["data", "outbox"].map((name) => mkdtempSync(join(tmpdir(), `perigee-${name}-`)));
  if (dataDir === undefined || outbox === undefined) throw new Error("no folder");
  const roots = { inbox: join(EXAMPLES, "inbox"), outbox };
  const service = await createPerigeeService({
    ...{ dataDir, env: {}, threads: 1, egressAllow: ["127.0.0.0/8"] },
    satellites: { roots, mailPorts: mailPort === undefined ? [] : [mailPort] },
    verifier: {
      verify: (text, area) => (text === (area === "v1" ? KEY : `Bearer ${KEY}`) ? CALLER : undefined),
    },
  });
  const url = await service.listen({ port: 0 });
  closing.push(
    () => [dataDir, outbox].map((path) => rmSync(path, { recursive: true, force: true })),
    () => service.close(),
  );
  const call: Service["call"] = async (method, path, body) => {
    const isForm = body instanceof FormData;
    const response = await fetch(url + path, {
      method,
      headers: {
        authorization: path.startsWith("/v0") ? `Bearer ${KEY}` : KEY,
        ...(isForm || body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
  return {
    outbox,
    call,
    upload: async (text) => {
      const form = new FormData();
      form.append("file", new Blob([text]), "questions.jsonl");
      return (await call("PUT", "/v0/files/questions.jsonl?purpose=user_data", form)).file_id;
    },
    run: async (file, input) => {
      const declaration = readFileSync(join(EXAMPLES, file), "utf8");
      let run = await call("POST", "/v1/clusters/", { declaration, input });
      while (run.status === "pending") {
        await systemClock.sleep(50);
        run = await call("GET", `/v1/clusters/${run.cluster_id}/`);
      }
      const members = run.members.map((member: Member) => [member.identifier, member]);
      return { status: run.status, members: Object.fromEntries(members) };
    },
  };
}

/** What was sent to each path of a receiver of HTTP. */
async function openReceiver(): Promise<{ readonly url: string; readonly taken: [string, string][] }> {
  const taken: [string, string][] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    taken.push([request.url ?? "", Buffer.concat(chunks).toString("latin1")]);
    response.writeHead(request.url === "/loki/api/v1/push" ? 204 : 200).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, taken };
}

const questions = '{"key":"a","prompt":"One?"}\n{"key":"b","prompt":"Two?"}\n';

describe("the clusters of the documentation", () => {
  it("summaries.yaml: runs by the command of the README, from the folder of the project", async () => {
    const data = mkdtempSync(join(tmpdir(), "perigee-summaries-"));
    const made = join(ROOT, "summaries");
    const wasThere = existsSync(made);
    closing.push(() => {
      rmSync(data, { recursive: true, force: true });
      if (!wasThere) rmSync(made, { recursive: true, force: true });
    });
    const place = "docs/examples/clusters";
    const words = ["cluster", "run", `${place}/summaries.yaml`, "--config", `${place}/perigee.json`];
    expect(readFileSync(join(ROOT, "README.md"), "utf8")).toContain(
      `node dist/cli/main.js ${words.join(" ")}\n`,
    );
    const command = promisify(execFile)("node", ["dist/cli/main.js", ...words, "--data", data, "--json"], {
      cwd: ROOT,
    });
    const summary = JSON.parse((await command).stdout) as { status: string; cluster_id: string };
    expect(summary.status).toBe("completed");
    const lines = readFileSync(join(made, `${summary.cluster_id}.jsonl`), "utf8");
    expect(lines.trimEnd().split("\n")).toHaveLength(3);
  });

  it("documents.yaml: fetches, parses, summarises, delivers and mails", async () => {
    const mail = await openMailServer({ disabledCommands: ["STARTTLS", "AUTH"] });
    const service = await openService(mail.port);
    const input = { mail_host: "127.0.0.1", mail_port: mail.port, mail_security: "none" };
    const { status, members } = await service.run("documents.yaml", input);
    expect([status, Object.values(members).map((member) => [member.identifier, member.status])]).toEqual([
      "completed",
      ["inbox", "parse", "summarise", "deliver", "mail"].map((name) => [name, "completed"]),
    ]);
    const lines = readFileSync(join(service.outbox, members["deliver"]?.output.path), "utf8");
    expect(lines.trimEnd().split("\n")).toHaveLength(3);
    expect(lines).toContain("| October | 410000 | 88.15 |");
    expect(mail.taken).toHaveLength(1);
    expect(mail.taken[0]?.to).toEqual(["team@reports.test"]);
    expect(mail.taken[0]?.raw).toContain("3 documents were summarised");
    expect(mail.taken[0]?.raw).toContain("answers.jsonl");
  });

  it("questions.yaml: logs what was answered, and alerts nobody", async () => {
    const [service, receiver] = [await openService(), await openReceiver()];
    const input = {
      ...{ model: "echo:m", questions: await service.upload(questions) },
      ...{ loki: receiver.url, alerts: `${receiver.url}/alerts` },
    };
    const { status, members } = await service.run("questions.yaml", input);
    expect([status, members["log"]?.status, members["alert"]?.status]).toEqual([
      "completed",
      "completed",
      "skipped",
    ]);
    expect(members["answer"]?.output.counts).toEqual({ completed: 2, failed: 0 });
    expect(receiver.taken.map(([path]) => path)).toEqual(["/loki/api/v1/push"]);
  });

  it("questions.yaml: logs and alerts when it fails", async () => {
    const [service, receiver] = [await openService(), await openReceiver()];
    const input = {
      ...{ model: "echo:m", questions: "5a0c8f86-1d4c-4c5f-9a5c-0b7f3a5d9e01" },
      ...{ loki: receiver.url, alerts: `${receiver.url}/alerts` },
    };
    const { status, members } = await service.run("questions.yaml", input);
    expect([status, members["answer"]?.status, members["alert"]?.status]).toEqual([
      "failed",
      "failed",
      "completed",
    ]);
    const alert = receiver.taken.find(([path]) => path === "/alerts")?.[1] ?? "";
    expect(JSON.parse(alert)).toMatchObject({ title: "Questions have failed", severity: "critical" });
  });

  it("custom.yaml: a custom satellite uses a configured one, and another configured one sends its output", async () => {
    const [service, receiver] = [await openService(), await openReceiver()];
    const path = "/v1/satellites/acme";
    await service.call("PUT", "/v1/secrets/team-token", { value: "hidden-token" });
    await service.call("PUT", `${path}/plain-english`, {
      kind: "configured",
      base: "satellite/perigee/deepseek-r1-distrill-llama-70b",
      config: { model: "echo:m", instruction: "Say it in plain English:" },
    });
    await service.call("PUT", `${path}/tell-team`, {
      kind: "configured",
      base: "satellite/perigee/call-webhook",
      config: { url: `${receiver.url}/team`, headers: { authorization: "Bearer secret://team-token" } },
    });
    const secrets: { secret: string }[] = [];
    const host = createOrbitHost({
      clock: systemClock,
      http: localHttp,
      satellites: [releaseNotes],
      secrets,
    });
    const url = await host.listen({ host: "127.0.0.1", port: 0 });
    closing.push(() => host.close());
    const satellite = toWire(describeSatellite(releaseNotes));
    const { secret } = await service.call("PUT", `${path}/release-notes`, { kind: "custom", url, satellite });
    secrets.push({ secret });
    const { status, members } = await service.run("custom.yaml", { changes: ["Fixed a leak.", "Faster."] });
    expect([status, members["notes"]?.output]).toEqual([
      "completed",
      { text: "- Say it in plain English:\n\nFixed a leak.\n- Say it in plain English:\n\nFaster." },
    ]);
    expect(receiver.taken).toHaveLength(1);
    expect(JSON.parse(receiver.taken[0]?.[1] ?? "")).toEqual(members["notes"]?.output);
    const described = JSON.stringify(await service.call("GET", `${path}/tell-team`));
    expect(described).not.toContain(receiver.url);
  });
});
