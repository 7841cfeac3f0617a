/**
 * The world around the data folders in `test/fixtures/folders`: one server at a fixed loopback address that is their provider, the
 * destination of their executions and the receiver of their webhooks, and files packed into one. `scripts/record_folders.ts` makes such
 * folders; `recorded_folders.test.ts` opens them with the tree as it is.
 *
 * The address is part of what is stored, so it is the same at the recording and in the test. Only Linux has all of 127/8.
 */
import { mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { dirname, join, relative } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

const HOST = "127.83.17.29";
const PORT = 8443; // one of the ports that satellites may call

export const WORLD_URL = `http://${HOST}:${PORT}`;

/** The environment of a process in this world. */
export const WORLD_ENV = {
  PERIGEE_PROVIDER_OPENAI_BASE_URL: `${WORLD_URL}/v1`,
  PERIGEE_PROVIDER_OPENAI_KEY: "k",
  PERIGEE_EGRESS_ALLOW: `${HOST}/32`,
  PERIGEE_MAX_INFLIGHT: "4",
} as const;

/** What arrived: a prompt for the provider, or a call of a path. */
export interface Arrival {
  readonly path: string;
  readonly prompt?: string;
  /** Of a delivery. */
  readonly webhookId?: string;
  readonly authorization?: string;
  readonly treatment: Treatment;
}

export type Treatment = "answer" | "hold" | "refuse" | "unavailable";

/** What a folder holds, as its service or run showed it right before it was killed. */
export interface Recording {
  readonly recordedAtMs: number;
  readonly arrivals: readonly Arrival[];
  /** JSON, by name. */
  readonly shown: Readonly<Record<string, unknown>>;
}

export class RecordedWorld {
  readonly arrivals: Arrival[] = [];
  treat: (arrival: Omit<Arrival, "treatment">) => Treatment = () => "answer";
  readonly #server: Server = createServer((request, response) => void this.#take(request, response));

  /** Waits while another test on this machine has the address. */
  async listen(): Promise<void> {
    const isListening = () =>
      new Promise<boolean>((resolve, reject) => {
        const failed = (error: NodeJS.ErrnoException): void =>
          error.code === "EADDRINUSE" ? resolve(false) : reject(error);
        this.#server.once("error", failed).listen(PORT, HOST, () => {
          this.#server.off("error", failed);
          resolve(true);
        });
      });
    await until(isListening, `the address ${WORLD_URL}`);
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const path = request.url ?? "";
    if (/^\/v1\/(?:files|batches)/.test(path)) {
      response.writeHead(404).end(); // the provider has no batches
      return;
    }
    const { "webhook-id": webhookId, authorization } = request.headers;
    const prompt = path.startsWith("/v1/") ? promptOf(Buffer.concat(chunks).toString()) : undefined;
    const arrival = {
      path,
      ...(prompt === undefined ? {} : { prompt }),
      ...(webhookId === undefined ? {} : { webhookId: String(webhookId) }),
      ...(authorization === undefined ? {} : { authorization }),
    };
    const treatment = this.treat(arrival);
    this.arrivals.push({ ...arrival, treatment });
    if (treatment === "hold") return;
    const status = { answer: 200, refuse: 400, unavailable: 503 }[treatment];
    response.writeHead(status, { "content-type": "application/json" });
    response.end(prompt === undefined ? "{}" : JSON.stringify(status === 200 ? answerTo(prompt) : {}));
  }
}

/** All files below a folder with their times, as one file. */
export function packFolder(folder: string, recording: Recording): Uint8Array {
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const files = paths.map((path) => ({
    path: relative(folder, path),
    modifiedMs: statSync(path).mtimeMs,
    base64: readFileSync(path, "base64"),
  }));
  return gzipSync(JSON.stringify({ recording, files }), { level: 9 });
}

/** Writes the files of a packed folder into a new one. */
export function unpackFolder(packed: string, folder: string): Recording {
  const { recording, files } = JSON.parse(gunzipSync(readFileSync(packed)).toString()) as {
    readonly recording: Recording;
    readonly files: readonly {
      readonly path: string;
      readonly modifiedMs: number;
      readonly base64: string;
    }[];
  };
  for (const { path, modifiedMs, base64 } of files) {
    const target = join(folder, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, base64, { encoding: "base64", mode: 0o600 });
    utimesSync(target, modifiedMs / 1_000, modifiedMs / 1_000);
  }
  return recording;
}

/**
 * `NODE_OPTIONS` of a process whose wall clock goes on a second after the recording, so that no deadline has passed. It is set to another
 * boot: the machine of the recording would count the time since then by its own.
 */
export function clockAfter({ recordedAtMs }: Recording): string {
  const code = `
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const lag = Date.now() - ${recordedAtMs + 1_000}, now = Date.now, read = fs.readFileSync;
    Date.now = () => now() - lag;
    fs.readFileSync = (path, ...rest) => String(path).endsWith("/boot_id") ? "00000000-0000-4000-8000-000000000001" : read(path, ...rest);
    syncBuiltinESMExports();`;
  return `--import data:text/javascript,${encodeURIComponent(code)}`;
}

export async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const endMs = performance.now() + 60_000; !(await isTrue()); ) {
    if (performance.now() > endMs) throw new Error(`waited 60 s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function promptOf(body: string): string {
  const { messages } = JSON.parse(body) as { messages: readonly { readonly content: unknown }[] };
  const content = messages.at(-1)?.content;
  return typeof content === "string"
    ? content
    : (content as { text: string }[]).map((part) => part.text).join("");
}

function answerTo(prompt: string): object {
  const message = { role: "assistant", content: `answer: ${prompt}` };
  return {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_790_000_000,
    model: "gpt-4o-mini-2024-07-18",
    choices: [{ index: 0, finish_reason: "stop", message, logprobs: null }],
    usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 },
  };
}
