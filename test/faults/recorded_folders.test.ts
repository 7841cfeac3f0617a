/**
 * Data folders that an earlier commit left in the middle of their work (test/fixtures/folders, made by scripts/record_folders.ts) are
 * opened by the command as it is now and finished. Nothing that was acknowledged is lost, and nothing that was answered is sent again.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { urlOf } from "./killed_service.ts";
import {
  clockAfter,
  RecordedWorld,
  type Recording,
  unpackFolder,
  until,
  WORLD_ENV,
} from "./recorded_world.ts";

const FOLDERS = fileURLToPath(new URL("../fixtures/folders/", import.meta.url));
const LIBRARY = new URL("../../dist/index.js", import.meta.url).href;
const SATELLITES = "/v1/satellites/perigee/call-webhook/";
const children = new Set<ChildProcess>();

let world: RecordedWorld;
let folder: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "perigee-recorded-"));
  world = new RecordedWorld();
  await world.listen();
}, 90_000);
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
  world.close();
  rmSync(folder, { recursive: true, force: true });
});

function recordedAs(kind: string): string[] {
  const names = readdirSync(FOLDERS).filter((name) => name.endsWith(`-${kind}.json.gz`));
  expect(names).not.toEqual([]);
  return names;
}

function start(recording: Recording, words: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, words, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      XDG_STATE_HOME: process.env["XDG_STATE_HOME"],
      NODE_OPTIONS: clockAfter(recording),
      ...WORLD_ENV,
    },
  });
  children.add(child);
  return child;
}

async function ended(child: ChildProcess): Promise<{ readonly code: unknown; readonly stdout: string }> {
  let stdout = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.resume();
  await once(child, "close");
  return { code: child.exitCode, stdout };
}

function promptsThatWere(treatment: string, { arrivals }: Recording): string[] {
  return arrivals.flatMap(({ prompt, treatment: was }) =>
    prompt === undefined || was !== treatment ? [] : [prompt],
  );
}

/** Each prompt once, of those before that were answered none, of those in flight at the kill each. */
function expectSent(recording: Recording, all: readonly string[]): void {
  const final = new Set([...promptsThatWere("answer", recording), ...promptsThatWere("refuse", recording)]);
  const sent = world.arrivals.flatMap(({ prompt }) => prompt ?? []);
  expect(sent.sort()).toEqual(all.filter((prompt) => !final.has(prompt)).sort());
}

const numbered = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${name} ${index}`);

describe.runIf(process.platform === "linux")("a data folder of an earlier commit", () => {
  it.each(recordedAs("run"))(
    "continues a run that was in its middle: %s",
    async (name) => {
      const recording = unpackFolder(join(FOLDERS, name), folder);
      const words = [MAIN, "run", join(folder, "in.jsonl"), "--out", join(folder, "out.jsonl"), "--json"];
      const { code, stdout } = await ended(start(recording, words));
      expect([code, JSON.parse(stdout)]).toMatchObject([
        3,
        { status: "completed", counts: { completed: 39, failed: 2 } },
      ]);
      const before = (recording.shown["lines"] as string).split("\n").slice(0, -1);
      const lines = readFileSync(join(folder, "out.jsonl"), "utf8").split("\n").slice(0, -1);
      expect(lines.slice(0, before.length)).toEqual(before);
      const texts = lines.map((line) => {
        const { key, output } = JSON.parse(line) as { key: string | null; output: { text: string } | null };
        return `${key}: ${output?.text}`;
      });
      const numbers = Array.from({ length: 40 }, (_, index) => index + 1);
      expect(texts.sort()).toEqual(
        [
          "null: undefined",
          ...numbers.map((number) =>
            number === 3 ? "k3: undefined" : `k${number}: answer: Frage ${number} 何`,
          ),
        ].sort(),
      );
      expectSent(
        recording,
        numbers.map((number) => `Frage ${number} 何`).filter((text) => text !== "Frage 3 何"),
      );
      expect((await ended(start(recording, words))).code).toBe(3);
      expect(world.arrivals).toHaveLength(20);
    },
    60_000,
  );

  it.each(recordedAs("library"))(
    "finishes the list that a library had submitted: %s",
    async (name) => {
      const recording = unpackFolder(join(FOLDERS, name), folder);
      const { done, open } = recording.shown as Record<"done" | "open", { readonly task_id: string }>;
      const script = `import { createEngine } from ${JSON.stringify(LIBRARY)};
        const engine = await createEngine({ dataDir: "data" });
        const texts = ({ objects }) => objects.map(({ output, status }) => output?.text ?? status);
        const done = texts(await engine.task(${JSON.stringify(done.task_id)}));
        let open;
        do {
          await new Promise((resolve) => setTimeout(resolve, 50));
          open = texts(await engine.task(${JSON.stringify(open.task_id)}));
        } while (open.includes("submitted"));
        await engine.close();
        process.stdout.write(JSON.stringify({ done, open }));`;
      writeFileSync(join(folder, "finish.mjs"), script);
      const { code, stdout } = await ended(start(recording, ["finish.mjs"]));
      const answers = (prompts: readonly string[]): string[] => prompts.map((prompt) => `answer: ${prompt}`);
      const prompts = [...numbered("soon", 12), ...numbered("late", 12)];
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toEqual({ done: answers(numbered("done", 5)), open: answers(prompts) });
      expectSent(recording, prompts);
    },
    60_000,
  );

  it.each(recordedAs("service"))(
    "finishes tasks, batches, executions, clusters and deliveries of a service: %s",
    async (name) => {
      const recording = unpackFolder(join(FOLDERS, name), folder);
      const { shown } = recording as unknown as { readonly shown: Shown };
      const child = start(recording, [MAIN, "serve", "--port", "0", "--data", folder]);
      child.stderr?.resume();
      const url = await urlOf(child);
      const get = async (path: string): Promise<string> => {
        const isBare = path.startsWith("/v1/satellites/") || path.startsWith("/v1/clusters/");
        const headers = { authorization: isBare ? shown.key : `Bearer ${shown.key}` };
        const answer = await fetch(url + path, { headers });
        const text = await answer.text();
        expect([path, answer.status, text]).toEqual([path, 200, text]);
        return text;
      };
      const finished = async (path: string, isFinal: (status: string) => boolean): Promise<Finished> => {
        let seen = JSON.parse(await get(path)) as Finished;
        await until(async () => {
          seen = JSON.parse(await get(path)) as Finished;
          return isFinal(seen.status);
        }, path);
        return seen;
      };
      const isOver = (status: string): boolean => status !== "submitted" && status !== "pending";

      const texts: Record<string, readonly unknown[]> = {};
      for (const [task, id] of Object.entries(shown.tasks)) {
        const { objects } = await finished(`/v0/infer/task/${id}`, isOver);
        const before = (shown[`task ${task}`] as Finished).objects;
        expect(objects.map(({ object_id }) => object_id)).toEqual(before.map(({ object_id }) => object_id));
        for (const [index, object] of before.entries())
          if (isOver(object.status)) expect(objects[index]).toMatchObject(object);
        texts[task] = objects.map(({ output, error }) => output?.text ?? error?.code);
      }
      const answers = (prompts: readonly string[]): string[] => prompts.map((prompt) => `answer: ${prompt}`);
      const later = [...numbered("later", 3), ...numbered("much later", 3)];
      expect(texts).toEqual({
        done: answers(numbered("done", 3)),
        alsoDone: answers(numbered("also", 3)),
        many: answers(numbered("many", 14)),
        later: answers(later),
        ofFile: [...answers(["of a file 1", "of a file 2"]), "invalid_json"],
      });

      const batch = await finished(`/v1/batches/${shown.batch}`, (status) => status === "completed");
      const lines = (await get(`/v1/files/${batch.output_file_id}/content`)).trimEnd().split("\n");
      expect(lines.map((line) => contentOf(line)).sort()).toEqual(
        ["c1: answer: of a batch 1", "c2: answer: of a batch 2", "c3: answer: of a batch 3"].sort(),
      );
      const ofBatch = ["of a batch 1", "of a batch 2", "of a batch 3"];
      expectSent(recording, [...numbered("many", 14), ...later, "of a file 1", "of a file 2", ...ofBatch]);

      const statuses: Record<string, string> = {};
      for (const [execution, id] of Object.entries(shown.executions)) {
        const { status, error } = await finished(`${SATELLITES}${id}/`, isOver);
        statuses[execution] = error?.code ?? status;
      }
      expect(statuses).toEqual({
        done: "completed",
        unavailable: "completed",
        heldRepeatable: "completed",
        heldOnce: "ambiguous",
        cancelled: "cancelled",
      });
      expect(JSON.parse(await get(`${SATELLITES}${shown.executions["done"]}/`))).toEqual(
        shown["execution done"],
      );
      const { status, members } = await finished(`/v1/clusters/${shown.cluster}/`, isOver);
      expect([status, members.map((member) => member.status)]).toEqual([
        "completed",
        Array(3).fill("completed"),
      ]);

      // three tasks and a batch end now; of the two tasks that ended before, one is delivered and one is not
      const delivered = () => world.arrivals.flatMap(({ webhookId }) => webhookId ?? []);
      await until(() => delivered().length >= 5, "five deliveries");
      const before = recording.arrivals.flatMap(({ webhookId, treatment }) =>
        webhookId === undefined ? [] : [{ webhookId, treatment }],
      );
      expect(delivered()).not.toContain(before.find(({ treatment }) => treatment === "answer")?.webhookId);
      expect(delivered()).toContain(before.find(({ treatment }) => treatment === "unavailable")?.webhookId);
      expect(new Set(delivered()).size).toBe(5);

      const calls = world.arrivals.flatMap(({ path }) => (path.startsWith("/exec/") ? [path] : []));
      expect(calls.sort()).toEqual([
        "/exec/hold-put",
        "/exec/hold-second",
        "/exec/third",
        "/exec/unavailable",
      ]);
      child.kill("SIGTERM");
      expect((await once(child, "exit"))[0]).toBe(0);
    },
    120_000,
  );
});

interface Shown {
  readonly key: string;
  readonly tasks: Readonly<Record<string, string>>;
  readonly executions: Readonly<Record<string, string>>;
  readonly batch: string;
  readonly cluster: string;
  readonly [name: string]: unknown;
}

interface Finished {
  readonly status: string;
  readonly objects: readonly {
    readonly object_id: string;
    readonly status: string;
    readonly output?: { readonly text: string };
    readonly error?: { readonly code: string } | null;
    readonly usage: object;
  }[];
  readonly error?: { readonly code: string } | null;
  readonly members: readonly { readonly status: string }[];
  readonly output_file_id: string;
}

function contentOf(line: string): string {
  const { custom_id, response } = JSON.parse(line) as {
    readonly custom_id: string;
    readonly response: {
      readonly body: { readonly choices: readonly [{ readonly message: { content: string } }] };
    };
  };
  return `${custom_id}: ${response.body.choices[0].message.content}`;
}
