/** Which process answers a request, over real sockets and a clock that the test moves. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { FleetDirectory } from "../../src/fleet/directory.ts";
import { FleetAccess } from "../../src/fleet/fleet_access.ts";
import { Forwarding } from "../../src/fleet/forwarding.ts";
import { Hops } from "../../src/fleet/hops/hops.ts";
import { ProjectHomes } from "../../src/fleet/project_homes.ts";
import { FleetRouter, type Handler } from "../../src/fleet/router.ts";
import { Gathering } from "../../src/fleet/shared/gathered.ts";
import type { FleetReading } from "../../src/fleet/worker_rows.ts";
import type { Caller } from "../../src/service/http/caller.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listening(handle: Handle): Promise<string> {
  const server = createServer(handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
type Handle = (request: IncomingMessage, response: ServerResponse) => void;

const caller = (project: string): Caller => ({ keyId: "k", project, scopes: new Set(), isBeta: false });

interface World {
  readonly url: string;
  readonly clock: FakeClock;
  /** What the database says of the fleet. */
  reading: FleetReading;
  /** How often that was asked for. */
  reads: number;
  readonly local: Map<number, Handler>;
}

/** Projects `acme` at home in partition 1, `beta` in 2. */
async function world(reading: FleetReading): Promise<World> {
  const clock = new FakeClock();
  const local = new Map<number, Handler>();
  const made = { clock, local, reading, reads: 0 };
  const directory = new FleetDirectory(clock, async () => {
    made.reads += 1;
    return made.reading;
  });
  directory.take(reading, clock.nowMs());
  const hops = new Hops(clock, "secret");
  const forwarding = new Forwarding(clock, hops);
  const gathering = new Gathering({ clock, directory, hops });
  closers.push(() => hops.close());
  const verifier = {
    verify: (header: string | undefined) =>
      header === undefined ? undefined : caller(header.replace("Bearer ", "")),
  };
  const homes = new ProjectHomes(async (_sql, project) => ({
    rows: [project].flat().map((name) => ({ project: name, part: name === "acme" ? 1 : 2 })),
    count: 1,
  }));
  const router = new FleetRouter({
    ...{ clock, directory, homes, forwarding, gathering, isBehindProxy: false },
    access: new FleetAccess({ verifier, look: async () => undefined, isForm: () => false }),
    local: { handlerOf: (part) => local.get(part), first: 9 },
    metrics: answering("metrics of this process"),
  });
  return Object.assign(made, { url: await listening(router.handle) });
}

const alone = (address: string, owner: string | undefined = "w"): FleetReading => ({
  workers: [{ id: "w", name: "w", address, role: "all", version: "1", isLeaving: false, startedWallMs: 0 }],
  partitions: [{ part: 1, owner }],
  endsInMs: 6_000,
});
/** What a partition answers for a project that was charged some nano-dollars. */
function margin(nano: number, project: string) {
  const usd = Number((nano / 1e9).toFixed(9));
  const sums = {
    items: nano,
    list_usd: usd,
    charged_usd: usd,
    refund_usd: 0,
    billed_usd: 0,
    ambiguous_usd: 0,
  };
  const whole = { ...sums, margin_usd: usd };
  return { from: "2026-01-01", to: "2026-01-01", ...whole, projects: [{ project, ...whole, models: [] }] };
}
const nobody: FleetReading = { workers: [], partitions: [], endsInMs: Number.POSITIVE_INFINITY };
const answering =
  (text: string): Handler =>
  (_request, response) =>
    void response.end(text);
const get = (url: string, init: RequestInit = {}, path = "/v0/infer/tasks") =>
  fetch(`${url}${path}`, { ...init, headers: { authorization: "Bearer acme", ...init.headers } });

describe("a request", () => {
  it("is answered by the service of this process that has its project's partition", async () => {
    const { url, local } = await world(nobody);
    local.set(1, answering("one")).set(2, answering("two")).set(9, answering("any"));
    expect(await (await get(url)).text()).toBe("one");
    expect(await (await get(url, { headers: { authorization: "Bearer beta" } })).text()).toBe("two");
    expect(await (await fetch(`${url}/`)).text()).toBe("any");
  });

  it("with a signed link is answered by the partition of the project that the link claims", async () => {
    const { url, local } = await world(nobody);
    local.set(1, answering("one")).set(9, answering("any"));
    const claim = Buffer.from(JSON.stringify(["acme", "task", "all", 1])).toString("base64url");
    expect(await (await fetch(`${url}/v0/files/link/${claim}.mac`)).text()).toBe("one");
    expect(await (await fetch(`${url}/v0/files/link/nonsense`)).text()).toBe("any");
  });

  it("that decides on a satellite is answered by the home of the satellite's project, also for an operator of another project", async () => {
    const { url, local } = await world(nobody);
    local.set(1, answering("one")).set(2, answering("two"));
    const decide = (path: string, method = "POST") =>
      get(url, { method }, path).then((found) => found.text());
    expect(await decide("/v1/satellites/beta/shout/approve")).toBe("two");
    expect(await decide("/v1/satellites/beta/shout")).toBe("one"); // an execution is its caller's
    expect(await decide("/v1/satellites/beta/shout/approve", "GET")).toBe("one");
  });

  it("for the margin is answered with the projects of all partitions, once each has an owner", async () => {
    const worker = await listening((request, response) => {
      const part = Number(request.headers["x-perigee-part"]);
      response.end(JSON.stringify(margin(part, `p${part}`)));
    });
    const made = await world({
      ...alone(worker),
      partitions: [
        { part: 1, owner: "w" },
        { part: 2, owner: undefined },
      ],
    });
    const refused = await advanced(made.clock, get(made.url, {}, "/v0/margin"));
    expect(refused.status).toBe(503);
    const waiting = get(made.url, {}, "/v0/margin?from=2026-01-01");
    made.reading = {
      ...alone(worker),
      partitions: [
        { part: 1, owner: "w" },
        { part: 2, owner: "w" },
      ],
    };
    expect(await (await advanced(made.clock, waiting)).json()).toEqual({
      ...margin(3, ""),
      projects: [...margin(1, "p1").projects, ...margin(2, "p2").projects],
    });
  });

  it("with a provider's event reaches every partition, and was taken if one has taken it", async () => {
    const asked: string[] = [];
    const worker = await listening(async (request, response) => {
      const part = String(request.headers["x-perigee-part"]);
      for await (const chunk of request) asked.push(`${part} ${String(chunk)}`);
      response.writeHead(part === "1" ? 500 : 204).end();
    });
    const partitions = [1, 2].map((part) => ({ part, owner: "w" }));
    const { url } = await world({ ...alone(worker), partitions });
    const { status } = await get(url, { method: "POST", body: "event" }, "/v0/provider-events/openai");
    expect([status, asked.sort()]).toEqual([204, ["1 event", "2 event"]]);
  });

  it("for every partition waits ten seconds for one that is slow: then the margin is refused, and an event was taken by the others", async () => {
    const worker = await listening((request, response) => {
      if (request.headers["x-perigee-part"] === "2") return; // its worker answers, but not this request
      if (request.method === "GET") response.end(JSON.stringify(margin(1, "p1")));
      else response.writeHead(204).end();
    });
    const partitions = [1, 2].map((part) => ({ part, owner: "w" }));
    const { url, clock } = await world({ ...alone(worker), partitions });
    expect((await advanced(clock, get(url, {}, "/v0/margin"))).status).toBe(503);
    expect(clock.nowMs()).toBeLessThan(12_000);
    const event = { method: "POST", body: "event" };
    expect((await advanced(clock, get(url, event, "/v0/provider-events/openai"))).status).toBe(204);
  });

  it("with a provider's event was taken if one partition has taken it before, when the last round has too little time", async () => {
    let asked = 0;
    const worker = await listening((_request, response) => {
      asked += 1;
      if (asked === 1) response.writeHead(204).end();
    });
    const partitions = [
      { part: 1, owner: "w" },
      { part: 2, owner: undefined },
    ];
    const { url, clock } = await world({ ...alone(worker), partitions });
    const event = { method: "POST", body: "event" };
    expect((await advanced(clock, get(url, event, "/v0/provider-events/openai"))).status).toBe(204);
    expect(asked).toBeGreaterThan(1);
  });

  it("for metrics is answered by the process itself, whichever worker has the partitions", async () => {
    const { url, local } = await world(alone(await listening(answering("metrics of another"))));
    expect(await (await fetch(`${url}/metrics`)).text()).toBe("metrics of this process");
    local.set(9, answering("metrics of one partition"));
    expect(await (await fetch(`${url}/metrics`)).text()).toBe("metrics of this process");
  });

  it("for liveness is answered without the database, and for readiness is refused; both take no query parameters", async () => {
    const made = await world(nobody);
    await made.clock.advance(6_000); // without a reading
    const found = async (path: string) => {
      const response = await fetch(made.url + path);
      const { status, error } = (await response.json()) as { status?: string; error?: { code: string } };
      return [response.status, status ?? error?.code, response.headers.get("retry-after")];
    };
    expect(await found("/healthz")).toEqual([200, "ok", null]);
    expect(await found("/healthz/")).toEqual([200, "ok", null]);
    expect(await found("/healthz?x=1")).toEqual([422, "invalid_request", null]);
    expect(await sent(made.url, ["GET /healthz HTTP/1.1", "host: x", "content-length: 5"], "hello")).toMatch(
      /^HTTP\/1.1 422 .*invalid_request/s,
    );
    expect(await found("/readyz")).toEqual([503, "unavailable", "5"]);
    expect(made.reads).toBe(0);
  });

  it("is not answered from a partition that may be another worker's by now", async () => {
    const made = await world(nobody);
    made.local.set(1, answering("one"));
    expect([await (await get(made.url)).text(), made.reads]).toEqual(["one", 0]);
    await made.clock.advance(6_000);
    expect([await (await advanced(made.clock, get(made.url))).text(), made.reads]).toEqual(["one", 1]);
  });

  it("waits for an owner, and is refused after 10 s with the error of the service and a time to try again", async () => {
    const made = await world(nobody);
    const late = get(made.url);
    const refused = await advanced(made.clock, late);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await refused.json()).toEqual({
      error: expect.objectContaining({ type: "server_error", code: "unavailable", param: null }),
      request_id: expect.stringMatching(/^req_/),
    });
    const waiting = get(made.url);
    made.reading = alone(await listening(answering("adopted")));
    expect(await (await advanced(made.clock, waiting)).text()).toBe("adopted");
  });

  it("waits for the next owner while its partition drains, however long that takes, and 10 s more", async () => {
    const states: (string | undefined)[] = [];
    const draining = await listening((_request, response) => {
      const value = made.clock.nowMs() - startMs < 40_000 ? "draining" : "1";
      states.push(value);
      response.writeHead(421, { "x-perigee-elsewhere": value }).end();
    });
    const made = await world(alone(draining));
    const startMs = made.clock.nowMs();
    const refused = await advanced(made.clock, get(made.url));
    const tookMs = made.clock.nowMs() - startMs;
    expect([refused.status, states.at(-1)]).toEqual([503, "1"]);
    expect(tookMs).toBeGreaterThanOrEqual(49_000);
    expect(tookMs).toBeLessThan(53_000);
  });

  it("that waits for a draining partition asks its owner once a second, and the next owner at once", async () => {
    const askedMs: number[] = [];
    const next = { ...alone(await listening(answering("next"))).workers[0], id: "v" };
    const draining = await listening((_request, response) => {
      askedMs.push(made.clock.nowMs());
      if (askedMs.length === 5) made.reading = { ...alone("", "v"), workers: [next] } as FleetReading;
      response.writeHead(421, { "x-perigee-elsewhere": "draining" }).end();
    });
    const made = await world(alone(draining));
    const answered = await advanced(made.clock, get(made.url));
    expect(await answered.text()).toBe("next");
    const [first = 0, last = 0] = [askedMs[0], askedMs.at(-1)];
    expect(askedMs.length).toBe(5);
    expect(last - first).toBeGreaterThanOrEqual(4_000);
    expect(made.clock.nowMs() - last).toBeLessThan(900);
  });

  it("of HTTP/1.0 may have no Host, also on its way to another worker", async () => {
    const worker = await listening((request, response) =>
      response.end(`host is ${JSON.stringify(request.headers.host)}`),
    );
    const { url } = await world(alone(worker));
    const key = "authorization: Bearer acme";
    expect(await sent(url, ["GET /v0/infer/tasks HTTP/1.0", key])).toContain('host is ""');
    expect(await sent(url, ["GET /v0/infer/tasks HTTP/1.0", "host: x", key])).toContain('host is "x"');
  });

  it("is sent again when its worker broke off, if it only reads or has an Idempotency-Key that is read", async () => {
    let bodies: string[] = [];
    const worker = await listening(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      bodies.push(Buffer.concat(chunks).toString());
      if (bodies.length === 1) request.socket.destroy();
      else response.end("again");
    });
    const { url, clock } = await world(alone(worker));
    expect(await (await advanced(clock, get(url))).text()).toBe("again");
    bodies = [];
    const post = { method: "POST", body: "[]" };
    const keyed = { ...post, headers: { "idempotency-key": "k" } };
    expect(await (await advanced(clock, get(url, keyed, "/v0/infer/"))).text()).toBe("again");
    expect(bodies).toEqual(["[]", "[]"]);
    bodies = [];
    expect((await advanced(clock, get(url, keyed, "/v1/files"))).status).toBe(502); // which does not read the key
    bodies = [];
    const broken = await advanced(clock, get(url, post));
    expect([broken.status, await broken.json()]).toEqual([
      502,
      { error: expect.objectContaining({ code: "connection_lost" }), request_id: expect.any(String) },
    ]);
    expect(bodies).toEqual(["[]"]);
  });

  it("that is sent again to a worker which is still at the first one waits for that, and a second one of its client does not", async () => {
    let sent = 0;
    const made = await world(nobody);
    const worker = await listening(async (request, response) => {
      if (request.url === "/") return void response.end(); // whether it is silent
      for await (const _chunk of request);
      sent += 1;
      if (sent === 2)
        request.socket.destroy(); // and works on
      else if (sent === 18) response.end("the answer of the first");
      else response.writeHead(409, { "retry-after": "1" }).end();
    });
    made.reading = alone(worker);
    const keyed = { method: "POST", body: "[]", headers: { "idempotency-key": "k" } };
    const ask = () => advanced(made.clock, get(made.url, keyed, "/v0/infer/"));
    expect((await ask()).status).toBe(409);
    const beganMs = made.clock.nowMs();
    expect(await (await ask()).text()).toBe("the answer of the first");
    expect(made.clock.nowMs() - beganMs).toBeGreaterThan(14_000);
  });

  it("waits 10 s for the next worker from the loss of the one that had it, however long that had it, and is lost with a third", async () => {
    let losses = 1;
    const startedMs: number[] = [];
    const made = await world(nobody);
    const { clock, url } = made;
    const next = () => {
      made.reading = alone(worker);
    };
    const worker = await listening((request, response) => {
      if (request.url === "/") return void response.end(); // whether it is silent
      startedMs.push(clock.nowMs());
      if (startedMs.length > losses) response.end("again");
      else
        clock.timer(15_000, () => {
          made.reading = nobody; // until another one has its partition
          request.socket.destroy();
          clock.timer(8_000, next);
        });
    });
    const keyed = { method: "POST", body: "[]", headers: { "idempotency-key": "k" } };
    for (const init of [{}, keyed]) {
      next();
      startedMs.length = 0;
      const answered = await advanced(clock, get(url, init, "/v0/infer/"));
      expect([answered.status, await answered.text()]).toEqual([200, "again"]);
      const [first = 0, second = 0] = startedMs;
      expect(second - first).toBeGreaterThanOrEqual(23_000);
    }
    losses = 100;
    next();
    startedMs.length = 0;
    const lost = await advanced(clock, get(url, keyed, "/v0/infer/"));
    expect([lost.status, await lost.json()]).toEqual([
      502,
      { error: expect.objectContaining({ code: "connection_lost" }), request_id: expect.any(String) },
    ]);
    expect(startedMs.length).toBe(3);
  });
});

/** Sends the lines of a request; resolves with what was answered until the connection closes. */
async function sent(url: string, lines: readonly string[], body = ""): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write([...lines, "connection: close", "", body].join("\r\n"));
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text;
}

/** Lets time pass until there is an answer, slowly enough for sockets of this process. */
async function advanced(clock: FakeClock, answered: Promise<Response>): Promise<Response> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  answered.then(end, end);
  while (!isOver) {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(100);
  }
  return answered;
}
