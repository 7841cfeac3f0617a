/**
 * Posts and executions of some projects, through any worker: each is sent with its `Idempotency-Key` until it is acknowledged, then read until it
 * has ended.
 *
 *   sent -> not acknowledged -> sent again, through another worker
 *        -> acknowledged -> read -> ended
 */
import type { FaultFleet, Worker } from "./fault_fleet.ts";
import type { Harms } from "./harms.ts";

export interface Project {
  readonly name: string;
  readonly key: string;
}

/** A POST of a task or of an execution. */
export interface Sent {
  readonly project: Project;
  readonly idempotencyKey: string;
  /** Of a task: its items. */
  readonly items: readonly number[];
  /** Of an execution: what it calls, and whether that may be repeated. */
  readonly call: { readonly number: number; readonly isRepeatable: boolean } | undefined;
  /** When the attempt that was acknowledged first was begun and answered. */
  acked: { readonly fromMs: number; readonly atMs: number; readonly id: string } | undefined;
  /** When an answer to a read had its end. */
  readMs: number | undefined;
}

interface Reply {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

const ATTEMPT_MS = 14_000;
const AGAIN_MS = 300;
const READERS = 4;
/** What a caller sends again: refusals that pass, and 409 while the first attempt is under way. */
const PASSING = new Set([409, 429, 502, 503, 507]);
const PATH = "/v1/satellites/perigee/call-webhook/";

interface LoadTerms {
  readonly random: () => number;
  readonly nextNumber: () => number;
  /** Minutes, of every other post. */
  readonly sla: number;
}

export class ServiceLoad {
  readonly sent: Sent[] = [];
  readonly problems = new Set<string>();
  readonly #fleet: FaultFleet;
  readonly #harms: Harms;
  readonly #random: () => number;
  readonly #nextNumber: () => number;
  readonly #sla: number;
  readonly #open = new Set<Promise<void>>();
  #isStopped = false;
  #isClosed = false;

  constructor(fleet: FaultFleet, harms: Harms, { random, nextNumber, sla }: LoadTerms) {
    this.#fleet = fleet;
    this.#harms = harms;
    this.#random = random;
    this.#nextNumber = nextNumber;
    this.#sla = sla;
  }

  /** Posts one after the other until it is stopped, without waiting for the answers. */
  async post(projects: readonly Project[], eachMs: number): Promise<void> {
    for (let round = 0; !this.#isStopped; round += 1) {
      const project = projects[round % projects.length] as Project; // there is one
      this.#send(project, round % 6 === 5);
      await new Promise((resolve) =>
        setTimeout(resolve, (eachMs / projects.length) * (0.5 + this.#random())),
      );
    }
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Waits no longer for anything. */
  close(): void {
    this.#isStopped = true;
    this.#isClosed = true;
  }

  /** Reads what was acknowledged until it has ended, several at a time. Resolves when all has ended after `stop`, or with `close`. */
  async read(): Promise<void> {
    await Promise.all(Array.from({ length: READERS }, (_, reader) => this.#readEvery(reader)));
    await Promise.all(this.#open);
  }

  get unended(): readonly Sent[] {
    return this.sent.filter(({ readMs }) => readMs === undefined);
  }

  /** Whether each post made one task: the lists of tasks have those that were acknowledged. */
  async listProblems(projects: readonly Project[], before: ReadonlySet<string>): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const project of projects) {
      const listed = (await this.tasksOf(project)).filter((id) => !before.has(id));
      const acked = this.sent.flatMap((sent) =>
        sent.project === project && sent.call === undefined && sent.acked !== undefined
          ? [sent.acked.id]
          : [],
      );
      const known = new Set(acked);
      const others = listed.filter((id) => !known.has(id));
      const missing = acked.filter((id) => !listed.includes(id));
      if (others.length > 0)
        problems.push(`${project.name} has ${others.length} tasks that no answer named: ${others[0]}`);
      if (missing.length > 0)
        problems.push(`${project.name} does not list ${missing.length} acknowledged tasks: ${missing[0]}`);
    }
    return problems;
  }

  async tasksOf({ name, key }: Project): Promise<readonly string[]> {
    const ids: string[] = [];
    for (let after = ""; ; ) {
      const { status, body } = await this.#asked(this.#worker(), key, `/v0/infer/tasks?limit=1000${after}`);
      if (status !== 200) {
        if (status !== 0 && !PASSING.has(status))
          throw new Error(`tasks of ${name}: ${status} ${JSON.stringify(body)}`);
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        continue;
      }
      const page = body as {
        readonly tasks: readonly { readonly task_id: string }[];
        readonly has_more: boolean;
        readonly last_id: string;
      };
      ids.push(...page.tasks.map(({ task_id: id }) => id));
      if (!page.has_more) return ids;
      after = `&after=${page.last_id}`;
    }
  }

  /** Mostly one that no fault was done to, as a load balancer would; sometimes any. */
  #worker(): Worker {
    const { workers } = this.#fleet;
    const well = workers.filter(({ place }) => !this.#harms.isHarmed(place));
    const from = well.length === 0 || this.#random() < 0.1 ? workers : well;
    return from[Math.floor(this.#random() * from.length)] as Worker; // there is one
  }

  #send(project: Project, isExecution: boolean): void {
    const count = 1 + Math.floor(3 * this.#random());
    const number = this.#nextNumber();
    const items = isExecution ? [] : [number, ...Array.from({ length: count - 1 }, () => this.#nextNumber())];
    const call = isExecution ? { number, isRepeatable: number % 2 === 0 } : undefined;
    const sent: Sent = {
      project,
      idempotencyKey: `key-${number}`,
      items,
      call,
      acked: undefined,
      readMs: undefined,
    };
    this.sent.push(sent);
    const work = this.#untilAcked(sent).finally(() => this.#open.delete(work));
    this.#open.add(work);
  }

  async #untilAcked(sent: Sent): Promise<void> {
    const { project, idempotencyKey } = sent;
    const [path, body] = this.#requestOf(sent);
    while (!this.#isClosed) {
      const fromMs = performance.now();
      const worker = this.#worker();
      const headers = { "idempotency-key": idempotencyKey };
      const reply = await this.#asked(worker, project.key, path, { method: "POST", body, headers });
      if (reply.status === 200) {
        sent.acked = {
          fromMs,
          atMs: performance.now(),
          id: String(reply.body["task_id"] ?? reply.body["execution_id"]),
        };
        return;
      }
      if (reply.status !== 0 && !PASSING.has(reply.status)) this.#note("POST", path, reply);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  #requestOf({ items, call }: Sent): readonly [path: string, body: string] {
    if (call === undefined) {
      const list = items.map((item) => ({
        model: "local:small",
        input: `[[${item}]]`,
        sla: (items[0] ?? 0) % 2 === 0 ? 120 : this.#sla,
      }));
      return ["/v0/infer/", JSON.stringify(list)];
    }
    const url = `http://127.0.0.1:${this.#fleet.provider.port}/calls/${call.number}`;
    return [
      PATH,
      JSON.stringify({ input: {}, config: { url, method: call.isRepeatable ? "PUT" : "POST" }, sla: "1h" }),
    ];
  }

  async #readEvery(reader: number): Promise<void> {
    for (;;) {
      if (this.#isClosed || (this.#isStopped && this.#open.size === 0 && this.unended.length === 0)) return;
      const mine = this.sent.filter(
        ({ acked, readMs }, index) =>
          acked !== undefined && readMs === undefined && index % READERS === reader,
      );
      for (const sent of mine) if (!this.#isClosed) await this.#readOnce(sent);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  async #readOnce(sent: Sent): Promise<void> {
    const { project, items, call, acked } = sent;
    const path = call === undefined ? `/v0/infer/task/${acked?.id}` : `${PATH}${acked?.id}/`;
    const { status, body } = await this.#asked(this.#worker(), project.key, path);
    const atMs = performance.now();
    if (status !== 200) {
      if (status !== 0 && !PASSING.has(status)) this.#note("GET", path, { status, body });
      return;
    }
    if (body["status"] === "submitted" || body["status"] === "pending") return;
    sent.readMs = atMs;
    if (call !== undefined) this.#checkExecution(call, acked?.id ?? "", body);
    else {
      const { objects = [] } = body as { objects?: { output?: { text: string } | null }[] };
      const texts = objects.map(({ output }) => output?.text);
      if (texts.join() !== items.map((item) => `answer ${item}`).join())
        this.problems.add(
          `task ${acked?.id} of ${items.join()} ended with ${JSON.stringify(body).slice(0, 400)}`,
        );
    }
  }

  #checkExecution(
    { number, isRepeatable }: NonNullable<Sent["call"]>,
    id: string,
    body: Reply["body"],
  ): void {
    const code = (body["error"] as { readonly code?: string } | null)?.code;
    const isAmbiguous = !isRepeatable && code === "ambiguous";
    if (body["status"] !== "completed" && !isAmbiguous)
      this.problems.add(`execution ${id} ended with ${JSON.stringify(body).slice(0, 400)}`);
    const times = this.#fleet.provider.calls.get(number) ?? 0;
    if (!isRepeatable && times > 1)
      this.problems.add(`execution ${id} called ${times} times what may not be repeated`);
    if (body["status"] === "completed" && times === 0)
      this.problems.add(`execution ${id} completed without a call`);
  }

  #note(method: string, path: string, { status, body }: Reply): void {
    if (this.problems.size < 20)
      this.problems.add(`${method} ${path}: ${status} ${JSON.stringify(body).slice(0, 300)}`);
  }

  /** Status 0 without an answer. */
  async #asked({ url }: Worker, key: string, path: string, init: RequestInit = {}): Promise<Reply> {
    try {
      const headers = {
        authorization: path.startsWith("/v0/") ? `Bearer ${key}` : key,
        "content-type": "application/json",
        ...init.headers,
      };
      const answered = await fetch(`${url}${path}`, {
        ...init,
        headers,
        signal: AbortSignal.timeout(ATTEMPT_MS),
      });
      const text = await answered.text();
      return {
        status: answered.status,
        body: text.startsWith("{") ? (JSON.parse(text) as Reply["body"]) : { text },
      };
    } catch {
      return { status: 0, body: {} };
    }
  }
}
