/**
 * perigee in a backend: an HTTP handler that takes lists, and returns their state. Run it:
 *
 *   npx tsx docs/examples/backend.ts
 *
 * It starts the server on a free port, is its own client once, and ends. A list is stored before it is acknowledged:
 * after a crash the next start of the engine continues it.
 */
import { mkdtemp } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { createEngine, type Engine, type Item, PerigeeError, type Task } from "perigee";

/** Codes of errors that are the client's, and their status. */
const STATUS: Readonly<Record<string, number>> = { usage: 422, not_found: 404 };

async function handle(engine: Engine, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const [, kind, id = ""] = (request.url ?? "").split("/");
    if (request.method === "POST" && kind === "tasks") {
      const items = (await json(request)) as Item[]; // submit checks every item
      return answer(response, 202, await engine.submit(items));
    }
    if (kind === "tasks") return answer(response, 200, await engine.task(id));
    if (kind === "objects") return answer(response, 200, await engine.object(id));
    answer(response, 404, { error: "no such page" });
  } catch (error) {
    const status = error instanceof PerigeeError ? (STATUS[error.code] ?? 500) : 400;
    answer(response, status, { error: error instanceof Error ? error.message : String(error) });
  }
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** Submits a list to be done within the hour, and asks until it is done. */
async function client(base: string): Promise<Task> {
  const items: Item[] = ["Hello", "How are you?", "Goodbye"].map((input) => ({
    model: "echo:small",
    input,
    sla: 60,
  }));
  const submitted = await fetch(`${base}/tasks`, { method: "POST", body: JSON.stringify(items) });
  let task = (await submitted.json()) as Task;
  while (task.status === "submitted") {
    await new Promise((resolve) => setTimeout(resolve, 50));
    task = (await (await fetch(`${base}/tasks/${task.taskId}`)).json()) as Task;
  }
  return task;
}

const engine = await createEngine({ dataDir: await mkdtemp(join(tmpdir(), "perigee-backend-")) });
const server = createServer((request, response) => void handle(engine, request, response));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const task = await client(base);
console.log(`${task.status}: ${task.counts.completed} of ${task.totalItems}`);
for (const object of task.objects)
  console.log(
    `  ${object.output?.text} (${object.usage.outputTokens} tokens, factor ${object.usage.priceFactor})`,
  );
const unknown = await fetch(`${base}/tasks/${task.taskId.replaceAll(/[0-9a-f]/g, "0")}`);
console.log(`an unknown task: ${unknown.status}`);

server.close();
await engine.close();
