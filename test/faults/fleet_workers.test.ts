/**
 * Three workers on one PostgreSQL, each with a public port: whichever is called, a project gets the same answers. A worker is killed,
 * stopped, and asked to leave; what was acknowledged is answered through the others.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { call, FleetWorld } from "./fleet_world.ts";

const IN_FLIGHT = 8;
const ITEMS = 24;

let postgres: PostgresServer;
let world: FleetWorld;
let key: string;

function items(from: number, count: number): string {
  return JSON.stringify(
    Array.from({ length: count }, (_, index) => ({
      model: "local:small",
      input: `[[${from + index}]]`,
      sla: 30,
    })),
  );
}

/** An item without sla: its client waits for the answer. */
function waiting(item: number): string {
  return JSON.stringify([{ model: "local:small", input: `[[${item}]]` }]);
}

function chat(item: number): string {
  return JSON.stringify({ model: "local:small", messages: [{ role: "user", content: `[[${item}]]` }] });
}

async function outputs(url: string, taskId: string): Promise<readonly unknown[]> {
  const { body } = await call(url, key, `/v0/infer/task/${taskId}`);
  const { objects = [] } = body as { objects?: { output?: { text: string } }[] };
  return objects.map(({ output }) => output?.text);
}

async function isOver(url: string, taskId: string): Promise<boolean> {
  const { status, body } = await call(url, key, `/v0/infer/task/${taskId}`);
  return status === 200 && body["status"] !== "submitted";
}

const answers = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `answer ${from + index}`);

describeCounterpart("a fleet of three workers", POSTGRES, () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    world = await FleetWorld.open(await postgres.freshUrl());
    await Promise.all(["w1", "w2", "w3"].map((name) => world.start(name)));
    await world.settled();
    ({ key } = await world.key("acme"));
  }, 120_000);
  afterAll(async () => {
    await world?.close();
    await postgres?.remove();
  });

  it("gives one project the same answers through each of them", { timeout: 60_000 }, async () => {
    const tasks: string[] = [];
    for (const [index, { url }] of world.workers.entries()) {
      const { status, body } = await call(url, key, "/v0/infer/", {
        method: "POST",
        body: items(100 + 10 * index, 2),
      });
      expect([status, body]).toEqual([200, expect.objectContaining({ total_items: 2 })]);
      tasks.push(String(body["task_id"]));
    }
    for (const [index, taskId] of tasks.entries())
      for (const { url } of world.workers) {
        await world.until(() => isOver(url, taskId));
        expect(await outputs(url, taskId)).toEqual(answers(100 + 10 * index, 2));
      }
    const lists = await Promise.all(world.workers.map(({ url }) => call(url, key, "/v0/infer/tasks")));
    expect(lists[0]?.status).toBe(200);
    for (const { body } of lists) expect(body).toEqual(lists[0]?.body);
  });

  it("repeats the answer to a POST with the same Idempotency-Key through another one", async () => {
    const post = { method: "POST", body: items(200, 1), headers: { "idempotency-key": "once" } };
    const made = await Promise.all(world.workers.map(({ url }) => call(url, key, "/v0/infer/", post)));
    const good = made.filter(({ status }) => status === 200);
    expect(good.length).toBeGreaterThan(0);
    expect(new Set(good.map(({ body }) => body["task_id"])).size).toBe(1);
    const again = await call(world.workers[2]?.url ?? "", key, "/v0/infer/", post);
    expect([again.status, again.body["task_id"]]).toEqual([200, good[0]?.body["task_id"]]);
  });

  it("passes files up and down, whole and in parts, through workers that do not keep them", async () => {
    const bytes = Buffer.alloc(3_000_000, "perigee fleet ");
    const form = new FormData();
    form.set("purpose", "user_data");
    form.set("file", new Blob([bytes]), "large.bin");
    const headers = { authorization: `Bearer ${key}` };
    const [first = "", second = "", third = ""] = world.workers.map(({ url }) => url);
    const sent = await fetch(`${first}/v1/files`, { method: "POST", headers, body: form });
    const { id } = (await sent.json()) as { id: string };
    for (const url of [first, second, third]) {
      const whole = await fetch(`${url}/v1/files/${id}/content`, { headers });
      expect([whole.status, Buffer.from(await whole.arrayBuffer()).equals(bytes)]).toEqual([200, true]);
      const part = await fetch(`${url}/v1/files/${id}/content`, {
        headers: { ...headers, range: "bytes=14-27" },
      });
      expect([part.status, await part.text()]).toEqual([206, "perigee fleet "]);
    }
  });

  it("streams an answer as it arrives, through each of them", async () => {
    for (const { url } of world.workers) {
      const answered = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({
          model: "local:small",
          stream: true,
          messages: [{ role: "user", content: "[[300]]" }],
        }),
      });
      expect(answered.headers.get("content-type")).toContain("text/event-stream");
      const text = await answered.text();
      expect(text).toContain('"answer "');
      expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
    }
  });

  it("gives a link without a key to its project's partition, through each of them", async () => {
    const posted = await call(world.workers[0]?.url ?? "", key, "/v0/infer/", {
      method: "POST",
      body: items(310, 1),
    });
    const taskId = String(posted.body["task_id"]);
    await world.until(() => isOver(world.workers[0]?.url ?? "", taskId));
    const made = await call(world.workers[1]?.url ?? "", key, `/v0/files/output/${taskId}.jsonl/link`, {
      method: "POST",
    });
    const { pathname } = new URL(String(made.body["url"]));
    for (const { url } of world.workers) {
      const read = await fetch(`${url}${pathname}`);
      expect([read.status, await read.text()]).toEqual([200, expect.stringContaining("answer 310")]);
    }
  });

  it("accepts a new key everywhere at once, refuses it within a second after it was revoked, and audits both", async () => {
    const made = await world.key("acme");
    const statuses = (): Promise<number[]> =>
      Promise.all(
        world.workers.map(async ({ url }) => (await call(url, made.key, "/v0/infer/tasks")).status),
      );
    expect(await statuses()).toEqual([200, 200, 200]);
    await world.revoke(made.id);
    await world.until(async () => (await statuses()).every((status) => status === 401), 5_000);
    const lines = await world.rows<{ line: string }>(
      `SELECT line FROM perigee_audit WHERE line LIKE '%"key":"${made.id}"%' ORDER BY wall_ms`,
    );
    expect(lines.map(({ line }) => (JSON.parse(line) as { event: string }).event)).toEqual([
      "key.created",
      "key.revoked",
    ]);
  });

  it("answers on its private port only who knows the secret of the fleet", async () => {
    const [row] = await world.rows<{ address: string }>("SELECT address FROM perigee_workers LIMIT 1");
    const headers = { "x-perigee-fleet": "guess", "x-perigee-part": "1", "x-forwarded-for": "203.0.113.9" };
    const { status } = await call(row?.address ?? "", key, "/v0/infer/tasks", { headers });
    expect(status).toBe(403);
  });

  it("answers HTTP/1.0 without a Host, refuses HTTP/1.1 without one, and bodies of probes, whichever worker is called", async () => {
    const get = async (url: string, path: string, version: string, more: readonly string[] = []) => {
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      const lines = [
        `GET ${path} HTTP/${version}`,
        `authorization: Bearer ${key}`,
        "connection: close",
        ...more,
      ];
      socket.write(`${lines.join("\r\n")}\r\n\r\n`);
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      return Number(text.split(" ")[1]);
    };
    for (const { url } of world.workers) {
      const tasks = "/v0/infer/tasks";
      expect([await get(url, tasks, "1.0"), await get(url, tasks, "1.1")]).toEqual([200, 400]);
      for (const path of ["/healthz", "/metrics"]) {
        expect(await get(url, path, "1.1", ["host: x", "content-length: 0"])).toBe(200);
        expect(await get(url, path, "1.1", ["host: x", "content-length: 5", "", "hello"])).toBe(422);
      }
    }
  });

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "is taken over within 10 s after %s of a worker, and the others answer within 30 s what it had acknowledged, each item once but for those in flight",
    { timeout: 120_000 },
    async (signal) => {
      const from = signal === "SIGKILL" ? 1_000 : 2_000;
      const home = await world.homeOf("acme");
      const others = world.workers.filter((worker) => worker !== home);
      const long = await longWaits(others[0]?.url ?? "", from + 900);
      world.answerMs = 300;
      const posted = await call(others[0]?.url ?? "", key, "/v0/infer/", {
        method: "POST",
        body: items(from, ITEMS),
      });
      expect(posted.status).toBe(200);
      const taskId = String(posted.body["task_id"]);
      await world.until(async () => (world.asked.get(from + 2 * IN_FLIGHT) ?? 0) > 0);
      home.child.kill(signal);
      onTestFinished(() => void home.child.kill("SIGCONT"));
      const takenMs = await world.until(async () => (await world.homeOf("acme")) !== home);
      expect(takenMs).toBeLessThan(10_000);
      const tookMs = await world.until(async () => {
        const reads = await Promise.all(others.map(({ url }) => isOver(url, taskId)));
        return reads.every(Boolean);
      }, 40_000);
      expect((await Promise.all(long)).map(({ status }) => status)).toEqual([200, 200]);
      expect(takenMs + tookMs, others.map(({ stderr }) => stderr()).join("")).toBeLessThan(30_000);
      for (const { url } of others) expect(await outputs(url, taskId)).toEqual(answers(from, ITEMS));
      const again = [...world.asked].filter(
        ([item, times]) => item >= from && item < from + ITEMS && times > 1,
      );
      expect(again.length).toBeLessThanOrEqual(IN_FLIGHT);
      if (signal === "SIGSTOP") {
        home.child.kill("SIGCONT");
        await world.until(async () => (await outputs(home.url, taskId)).length === ITEMS);
        expect(await outputs(home.url, taskId)).toEqual(answers(from, ITEMS));
        await world.settled();
      } else {
        world.workers.splice(world.workers.indexOf(home), 1);
        await movesWhole();
        await world.settled();
      }
    },
  );

  /** Calls with a key that have waited for their answers for more than the 10 s that a request waits for a worker. */
  async function longWaits(url: string, item: number): Promise<readonly ReturnType<typeof call>[]> {
    world.answerMs = 60_000;
    const send = (path: string, body: string) =>
      call(url, key, path, { method: "POST", body, headers: { "idempotency-key": `long ${body}` } });
    const sent = [send("/v1/chat/completions", chat(item)), send("/v0/infer/", waiting(item + 1))];
    const startedMs = performance.now();
    await world.until(async () => performance.now() - startedMs > 11_000);
    expect(world.asked.has(item) && world.asked.has(item + 1)).toBe(true);
    return sent;
  }

  /** A worker arrives: the partition of `acme`, which its owner adopted last, moves to it. Requests to the provider take longer than a worker that leaves has. */
  async function movesWhole(): Promise<void> {
    const before = await world.homeOf("acme");
    const url = world.workers.find((worker) => worker !== before)?.url ?? "";
    world.answerMs = 55_000;
    const body = items(6_000, ITEMS);
    const posted = await call(url, key, "/v0/infer/", { method: "POST", body });
    await world.until(async () => (world.asked.get(6_000) ?? 0) > 0);
    await world.start("w4");
    await world.until(async () => before.stderr().includes("is draining"));
    world.answerMs = 50;
    const startedMs = performance.now();
    const called = call(url, key, "/v1/chat/completions", { method: "POST", body: chat(6_900) });
    const waited = await call(url, key, "/v0/infer/", { method: "POST", body: waiting(6_901) });
    expect([waited.status, waited.body["status"]]).toEqual([200, "submitted"]);
    expect((await call(url, key, "/v0/infer/tasks")).status).toBe(200);
    await world.until(async () => performance.now() - startedMs > 9_000);
    expect((await world.homeOf("acme")).name).toBe(before.name);
    world.answerNow();
    expect((await called).status).toBe(200);
    expect((await world.homeOf("acme")).name).toBe("w4");
    for (const { body: task } of [posted, waited])
      await world.until(() => isOver(url, String(task["task_id"])));
    expect(await outputs(url, String(posted.body["task_id"]))).toEqual(answers(6_000, ITEMS));
    expect([...world.asked].filter(([item, times]) => item >= 6_000 && item < 7_000 && times > 1)).toEqual(
      [],
    );
  }

  it("sends nothing when it wakes up, while others have its partition and it does not know that yet", {
    timeout: 90_000,
  }, async () => {
    world.answerMs = 1_000;
    const home = await world.homeOf("acme");
    const other = world.workers.find((worker) => worker !== home);
    const body = items(5_000, 400);
    const posted = await call(other?.url ?? "", key, "/v0/infer/", { method: "POST", body });
    expect(posted.status).toBe(200);
    await world.until(async () => (world.asked.get(5_000 + 2 * IN_FLIGHT) ?? 0) > 0);
    home.child.kill("SIGSTOP");
    onTestFinished(() => void home.child.kill("SIGCONT"));
    await world.until(async () => (await world.homeOf("acme")) !== home);
    await world.until(async () => world.askedBy.at(-1) !== home.name);
    const before = world.askedBy.length;
    home.child.kill("SIGCONT");
    await world.until(async () => home.stderr().includes("taken over"));
    expect(world.askedBy.slice(before).filter((name) => name === home.name)).toEqual([]);
    world.answerMs = 50;
    await world.until(() => isOver(other?.url ?? "", String(posted.body["task_id"])));
    await world.settled();
  });

  it("hands its partition back within 10 s after SIGTERM, answers until then, and leaves no client that waits without its task", {
    timeout: 60_000,
  }, async () => {
    const home = await world.homeOf("acme");
    const others = world.workers.filter((worker) => worker !== home);
    const url = others[0]?.url ?? "";
    const send = (from: string, body: string) => call(from, key, "/v0/infer/", { method: "POST", body });
    const isAsked = (item: number) => world.until(async () => world.asked.has(item));
    world.answerMs = 30_000;
    const long = [send(url, waiting(3_000)), send(home.url, waiting(3_001))];
    await Promise.all([isAsked(3_000), isAsked(3_001)]);
    world.answerMs = 3_000;
    const short = [send(url, waiting(3_002)), send(home.url, waiting(3_003))];
    await Promise.all([isAsked(3_002), isAsked(3_003)]);
    world.answerMs = 50;
    const ended = once(home.child, "exit");
    const startedMs = performance.now();
    home.child.kill("SIGTERM");
    await world.until(async () => (await fetch(`${home.url}/readyz`)).status === 503);
    const posted = await send(url, items(3_010, 2));
    expect([posted.status, (await call(url, key, "/v0/infer/tasks")).status]).toEqual([200, 200]);
    expect((await world.homeOf("acme")).name).toBe(home.name);
    const states = await Promise.all([...short, ...long].map(async (sent) => (await sent).body["status"]));
    expect(states).toEqual(["completed", "completed", "submitted", "submitted"]);
    await ended;
    expect(performance.now() - startedMs, home.stderr()).toBeLessThan(15_000);
    expect([home.child.exitCode, home.stderr()]).toEqual([0, expect.any(String)]);
    const taskId = String(posted.body["task_id"]);
    await world.until(() => isOver(url, taskId), 15_000);
    expect(await outputs(others[1]?.url ?? "", taskId)).toEqual(answers(3_010, 2));
    expect([3_002, 3_003, 3_010, 3_011].map((item) => world.asked.get(item))).toEqual([1, 1, 1, 1]);
  });

  it("is called through a process without partitions as well, and works on in one without a public port", {
    timeout: 60_000,
  }, async () => {
    const before = await world.rows<{ readonly part: number }>("SELECT part FROM perigee_partitions");
    const [router] = await Promise.all([
      world.start("router", ["--role", "api"]),
      world.start("inner", ["--role", "worker", "--public-url", "https://batch.example.org"]),
    ]);
    const posted = await call(router.url, key, "/v0/infer/", { method: "POST", body: items(4_000, 2) });
    await world.until(() => isOver(router.url, String(posted.body["task_id"])));
    expect(await outputs(router.url, String(posted.body["task_id"]))).toEqual(answers(4_000, 2));
    const health = await Promise.all(["/healthz", "/readyz"].map((path) => fetch(`${router.url}${path}`)));
    expect(health.map(({ status }) => status)).toEqual([200, 200]);
    const owners = await world.rows<{ readonly owner: string }>(
      "SELECT owner FROM perigee_partitions WHERE in_fleet",
    );
    expect(owners.filter(({ owner }) => owner.startsWith("router/"))).toEqual([]);
    expect(owners.length).toBeLessThanOrEqual(before.length + 1);
  });
});
