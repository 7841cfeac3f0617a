/**
 * The store on a real PostgreSQL that is stopped, killed, cut off and full: calls wait, take effect once, and nothing that was
 * acknowledged is lost. In between stands a proxy that can swallow the answer to a commit.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { LogCommit } from "../../src/store/log_rows.ts";
import { openDurableSession } from "../../src/store/postgres/pg_connection.ts";
import { LEASE_MS, RENEW_MS } from "../../src/store/postgres/pg_partition.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { Store, StoredEntry } from "../../src/store/store.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

/** Passes bytes on to the server, until it is told to swallow or to cut. */
class CutWire {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  /** The next commit reaches the server, and its answer nobody. */
  swallowsCommit = false;
  commitsSwallowed = 0;
  /** The next commit reaches the server only when the next session renews its lease; its own is lost at once. */
  holdsCommit = false;
  #heldCommit: (() => void) | undefined;
  connections = 0;
  /** Pieces that reached the server: one for each round trip, if nothing is sent while an answer is awaited. */
  pieces = 0;

  constructor(target: number) {
    this.#server = createServer((client) => {
      const server = connect(target, "127.0.0.1");
      let isSwallowing = false;
      let isHeld = false;
      this.connections += 1;
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => {
          client.destroy();
          if (!isHeld) server.destroy();
          this.#sockets.delete(socket);
        });
      }
      client.on("data", (bytes) => {
        this.pieces += 1;
        if (this.swallowsCommit && bytes.includes("COMMIT")) {
          this.swallowsCommit = false;
          this.commitsSwallowed += 1;
          isSwallowing = true;
        }
        if (this.holdsCommit && bytes.includes("COMMIT")) {
          this.holdsCommit = false;
          isHeld = true;
          this.#heldCommit = () => server.write(bytes);
          client.destroy();
          return;
        }
        server.write(bytes);
        if (bytes.includes("SET commits")) {
          this.#heldCommit?.(); // the renewal waits for its row
          this.#heldCommit = undefined;
        }
      });
      server.on("data", (bytes) => {
        if (isSwallowing)
          client.destroy(); // the server has answered, so it has committed
        else client.write(bytes);
      });
    });
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    return typeof address === "object" ? (address?.port ?? 0) : 0;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

async function textsOf(store: Store): Promise<string[]> {
  const found: string[] = [];
  for await (const { records } of store.journal("a") as AsyncIterable<StoredEntry>)
    found.push(new TextDecoder().decode(records));
  return found;
}

const entry = (text: string) => ({ taskId: "a", wallMs: 1, records: new TextEncoder().encode(text) });

/** The first commit of a log, which accepts one task. */
function accepting(id: string, body: string): LogCommit {
  const none = (): Uint8Array<ArrayBuffer> => new Uint8Array(new ArrayBuffer(0)); // each moves to the thread
  const accepted = { numbers: [1], ids: [id], projects: [1], kinds: [1], parents: [""] };
  return {
    accepted: { ...accepted, createdWallMs: [1], bodies: [body], requestSizes: [0], requests: none() },
    names: [[1, "acme"]],
    answers: { tasks: [], items: [], recordSizes: [], textSizes: [], records: none(), texts: none() },
    dropped: { tasks: [], items: [] },
    ...{ outputs: [], bodies: [], erased: [], removed: [], sequence: 1, records: none(), cutTo: 0 },
  };
}

const RECORD = { collection: "c", project: "p", parent: "", createdWallMs: 1, body: "{}" };
const inserted = (id: string) => ({ kind: "insert" as const, record: { ...RECORD, id } });

describeCounterpart("the store on PostgreSQL", POSTGRES, () => {
  let server: PostgresServer;
  let proxy: CutWire;
  let proxyPort: number;
  const open: Store[] = [];

  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server?.remove());
  beforeEach(async () => {
    proxy = new CutWire(server.port);
    proxyPort = await proxy.listen();
  });
  afterEach(async () => {
    for (const store of open.splice(0)) await store.close();
    await proxy.close();
  });

  const opened = async (url: string): Promise<Store> => {
    const store = await openPostgresStore({ url });
    open.push(store);
    return store;
  };
  const proxied = (url: string): string => url.replace(`:${server.port}/`, `:${proxyPort}/`);

  it.each(["SIGINT", "SIGQUIT"] as const)(
    "waits while the server is away after %s, and every write happens once, in order",
    async (signal) => {
      const store = await opened(await server.freshUrl());
      await store.append([entry("before")]);
      await server.down(signal);
      const written = ["one", "two", "three"].map((text) => store.append([entry(text)]));
      const read = textsOf(store);
      await server.up();
      await Promise.all(written);
      expect(await read).toEqual(["before", "one", "two", "three"]);
    },
  );

  it("commits in one round trip, and reads together: few of them, however many changes and reads there are", async () => {
    const store = await opened(proxied(await server.freshUrl()));
    const read = (id: string) => store.record("p", "c", id);
    await store.change([inserted("first")]);
    const tripsOf = async (work: () => Promise<unknown>): Promise<number> => {
      const { pieces } = proxy;
      await work();
      return proxy.pieces - pieces;
    };
    // One more than counted each, as the lease may be renewed meanwhile.
    expect(await tripsOf(() => store.change([inserted("second")]))).toBeLessThanOrEqual(2);
    const ids = Array.from({ length: 24 }, (_, index) => `r${index}`);
    const reads = () => Promise.all(ids.map(() => read("first")));
    expect(await tripsOf(reads)).toBeLessThanOrEqual(3); // 24 when each waited for the one before
    const both = () =>
      Promise.all(
        ids.map(async (id) => {
          const changed = store.change([inserted(id), inserted(`${id} too`)]);
          expect((await Promise.all([read("first"), changed]))[0]?.id).toBe("first");
        }),
      );
    expect(await tripsOf(both)).toBeLessThanOrEqual(4); // 74 when each waited for the one before
    expect(await read("r23 too")).toBeDefined();
  });

  it("commits nothing of a group with a refused change but the others, which are tried again", async () => {
    const store = await opened(proxied(await server.freshUrl()));
    await store.change([
      inserted("taken"),
      { kind: "put", record: { ...RECORD, id: "foreign", project: "q" } },
    ]);
    const tried = await Promise.allSettled([
      store.change([inserted("one")]),
      store.change([inserted("two"), inserted("taken")]),
      store.change([{ kind: "put", record: { ...RECORD, id: "foreign" } }]),
      store.change([inserted("three")]),
      store.record("p", "c", "taken"),
    ]);
    const codes = tried.map((one) => (one.status === "rejected" ? one.reason.code : one.value?.id));
    expect(codes).toEqual([undefined, "conflict", "conflict", undefined, "taken"]);
    const found = await store.records("p", { collection: "c", limit: 9 });
    expect(found.map(({ id }) => id)).toEqual(["taken", "one", "three"]);
  });

  it("commits entries and answers reads of several steps beside a change that is refused", async () => {
    const store = await opened(proxied(await server.freshUrl()));
    await store.change([inserted("taken"), inserted("next")]);
    const later = { collection: "c", after: "taken", limit: 9 };
    const [early, refused, entries, late] = await Promise.allSettled([
      store.records("p", later),
      store.change([inserted("taken")]),
      store.append([entry("kept")]),
      store.records("p", later),
    ]);
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "conflict" } });
    expect(entries.status).toBe("fulfilled");
    for (const read of [early, late]) expect(read).toMatchObject({ value: [{ id: "next" }] });
    expect(await textsOf(store)).toEqual(["kept"]);
  });

  it("knows a commit whose answer was lost, and does not make it again", async () => {
    const store = await opened(proxied(await server.freshUrl()));
    await store.append([entry("before")]);
    proxy.swallowsCommit = true;
    await Promise.all([store.append([entry("once")]), store.change([])]);
    await store.append([entry("after")]);
    expect(proxy.commitsSwallowed).toBe(1);
    expect(await textsOf(store)).toEqual(["before", "once", "after"]);
    proxy.swallowsCommit = true;
    await store.change([inserted("once")]); // in one piece with its commit; a second try would be refused
    expect(proxy.commitsSwallowed).toBe(2);
    await expect(store.change([inserted("once")])).rejects.toMatchObject({ code: "conflict" });
  });

  it("makes a write once whose commit takes effect after its session was given up", async () => {
    const store = await opened(proxied(await server.freshUrl()));
    await store.append([entry("before")]);
    proxy.holdsCommit = true;
    await store.append([entry("once")]);
    await store.append([entry("after")]);
    expect(proxy.holdsCommit).toBe(false);
    expect(await textsOf(store)).toEqual(["before", "once", "after"]);
    proxy.holdsCommit = true;
    await store.change([inserted("once")]);
    await store.change([inserted("after")]);
    expect(proxy.holdsCommit).toBe(false);
    expect(await store.records("p", { collection: "c", limit: 9 })).toHaveLength(2);
  });

  it("waits ever longer while the server is read-only, and goes on when it takes writes again", async () => {
    const url = await server.freshUrl();
    const store = await opened(proxied(url));
    await store.append([entry("before")]);
    await server.run("ALTER ROLE perigee SET default_transaction_read_only = on");
    const { connections } = proxy;
    proxy.cut();
    const written = store.append([entry("after")]);
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const reconnects = proxy.connections - connections;
    await server.run("BEGIN READ WRITE; ALTER ROLE perigee RESET default_transaction_read_only; COMMIT");
    await written;
    expect(reconnects).toBeLessThan(8); // it was 9 a second and more
    expect(await textsOf(store)).toEqual(["before", "after"]);
  });

  it("keeps to its own time-outs and isolation, whatever the role has", async () => {
    const url = await server.freshUrl();
    const settings = [
      "statement_timeout=50",
      "lock_timeout=50",
      "default_transaction_isolation=serializable",
    ];
    const strict = `${url}${settings.map((setting) => encodeURIComponent(` -c ${setting}`)).join("")}`;
    const both = await Promise.allSettled([
      openPostgresStore({ url: strict }),
      openPostgresStore({ url: strict }),
    ]);
    const codes = both.map((each) => (each.status === "rejected" ? each.reason.code : "opened"));
    expect(codes.toSorted()).toEqual(["data_dir_in_use", "opened"]);
    const store = both.find((each) => each.status === "fulfilled")?.value as Store;
    open.push(store);
    const table = `${schemaOf(url)}.perigee_partitions`;
    const locked = server.run(`BEGIN; LOCK TABLE ${table} IN EXCLUSIVE MODE; SELECT pg_sleep(0.5); COMMIT`);
    await Promise.all([store.append([entry("once")]), locked, store.append([entry("twice")])]);
    expect(await textsOf(store)).toEqual(["once", "twice"]);
  });

  it("goes on after a statement that an operator cancelled", async () => {
    const url = await server.freshUrl();
    const store = await opened(url);
    const table = `${schemaOf(url)}.perigee_partitions`;
    const locked = server.run(`BEGIN; LOCK TABLE ${table} IN EXCLUSIVE MODE; SELECT pg_sleep(0.5); COMMIT`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const written = store.append([entry("once")]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await server.run(
      "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'perigee' AND wait_event_type = 'Lock'",
    );
    await Promise.all([written, locked]);
    expect(await textsOf(store)).toEqual(["once"]);
  });

  it("goes on after any number of cut connections, each write once", async () => {
    const store = await opened(proxied(await server.freshUrl()));
    const texts = Array.from({ length: 40 }, (_, index) => String(index));
    for (const text of texts) {
      const written = store.append([entry(text)]);
      if (Number(text) % 4 === 0) setImmediate(() => proxy.cut());
      await written;
    }
    expect(await textsOf(store)).toEqual(texts);
  });

  it("ends for an owner whose partition was taken over: it can commit nothing any more", async () => {
    const url = await server.freshUrl();
    const first = await opened(url);
    await first.append([entry("first")]);
    let second: Store | undefined;
    while (second === undefined) {
      await server.run(`UPDATE ${schemaOf(url)}.perigee_partitions SET lease_until = '-infinity'`);
      second = await opened(url).catch(() => undefined); // the first one has renewed meanwhile
    }
    await expect(first.append([entry("too late")])).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringContaining("taken over"),
    });
    await expect(first.record("p", "c", "any")).rejects.toMatchObject({ code: "store_failed" });
    await second.append([entry("second")]);
    expect(await textsOf(second)).toEqual(["first", "second"]);
  });

  it.each([
    ["entries", (store: Store) => store.append([entry("slow")])],
    ["records", (store: Store) => store.change([inserted("slow")])],
  ] as const)(
    "keeps its partition through a transaction on %s that takes longer than a lease",
    {
      timeout: 60_000,
    },
    async (locks, write) => {
      const url = await server.freshUrl();
      const store = await opened(url);
      await store.append([entry("before")]);
      const table = `${schemaOf(url)}.perigee_${locks}`;
      const locked = server.run(
        `BEGIN; LOCK TABLE ${table} IN EXCLUSIVE MODE; SELECT pg_sleep(${(LEASE_MS + 2_000) / 1_000}); COMMIT`,
      );
      await new Promise((resolve) => setTimeout(resolve, 500));
      const slow = write(store);
      let isOver = false;
      const rivals = (async () => {
        const codes = new Set<unknown>();
        while (!isOver)
          codes.add(
            await openPostgresStore({ url }).then(
              () => "taken",
              (error: { readonly code: unknown }) => error.code,
            ),
          );
        return [...codes];
      })();
      await slow;
      expect(store.isHeld?.()).toBe(true); // since its end, not since its begin
      await locked;
      await store.append([entry("after")]);
      isOver = true;
      expect(await rivals).toEqual(["data_dir_in_use"]);
      expect(await textsOf(store)).toEqual(
        locks === "entries" ? ["before", "slow", "after"] : ["before", "after"],
      );
    },
  );

  it("is taken over within 10 s from an owner that stopped in the middle of a transaction", {
    timeout: 60_000,
  }, async () => {
    const url = await server.freshUrl();
    await (await openPostgresStore({ url })).close();
    const stopped = await openDurableSession(url); // its connection lives on
    await stopped.script(
      `UPDATE perigee_partitions SET lease_until = clock_timestamp() + ${LEASE_MS} * interval '1 ms'`,
    );
    await stopped.script("BEGIN; UPDATE perigee_partitions SET commits = commits + 1");
    const stoppedMs = performance.now();
    for (;;) {
      const taken = await openPostgresStore({ url }).catch((error: unknown) => error);
      if (taken instanceof Error) {
        expect(taken).toMatchObject({ code: "data_dir_in_use" });
        await new Promise((resolve) => setTimeout(resolve, 200));
        continue;
      }
      open.push(taken as Store); // not an error
      break;
    }
    expect(performance.now() - stoppedMs).toBeLessThan(10_000);
    await expect(stopped.script("COMMIT")).rejects.toThrow();
    stopped.end();
  });

  it("keeps its partition while nothing is asked of it", { timeout: 60_000 }, async () => {
    const url = await server.freshUrl();
    const store = await opened(url);
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS + 2_000));
    await expect(openPostgresStore({ url })).rejects.toMatchObject({ code: "data_dir_in_use" });
    await store.append([entry("still here")]);
  });

  it("is held until its lease has ended by its own clock while the server is away, and again once it is back", {
    timeout: 60_000,
  }, async () => {
    const store = await opened(await server.freshUrl());
    const held = (): boolean | undefined => store.isHeld?.();
    expect(held()).toBe(true);
    await server.down("SIGQUIT");
    const downMs = performance.now();
    await expect.poll(held, { interval: 10, timeout: LEASE_MS + 1_000 }).toBe(false);
    const lapsedMs = performance.now() - downMs;
    expect(lapsedMs).toBeGreaterThan(LEASE_MS - RENEW_MS - 2_000); // it was renewed at most 1.5 s before
    expect(lapsedMs).toBeLessThan(LEASE_MS + 100);
    await server.up();
    await expect.poll(held, { timeout: 10_000 }).toBe(true);
  });

  it("refuses a read of a row that is not JSON, which no new session would mend", async () => {
    const url = await server.freshUrl();
    const store = await opened(url);
    const record = {
      collection: "numbered",
      id: "one",
      project: "p",
      parent: "",
      createdWallMs: 1,
      body: "{}",
    };
    await store.change([{ kind: "put", record }]);
    await server.run(`UPDATE ${schemaOf(url)}.perigee_records SET body = '{'`);
    const query = { collection: "numbered", limit: 1, atMost: { member: "n", value: 1 } };
    await expect(store.records("p", query)).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringContaining("JSON"),
    });
  });

  it("says what is wrong where a server cannot be used", async () => {
    const url = await server.freshUrl();
    await expect(openPostgresStore({ url: url.replace("/postgres?", "/nowhere?") })).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining('database "nowhere" does not exist'),
    });
    await (await openPostgresStore({ url })).close();
    await server.run(`UPDATE ${schemaOf(url)}.perigee_schema SET version = 99`);
    await expect(openPostgresStore({ url })).rejects.toMatchObject({ code: "data_dir_newer" });
  });

  it.each([{ url: "" }, { url: "mysql://127.0.0.1/perigee" }, { part: 0.5 }, { part: 0 }, { part: 3e9 }])(
    "refuses %j as usage",
    async (wrong) => {
      await expect(openPostgresStore({ url: await server.freshUrl(), ...wrong })).rejects.toMatchObject({
        code: "usage",
        message: expect.stringMatching(/^openPostgresStore: (url|part) must be /),
      });
    },
  );

  it("is opened by a role that may read and write its tables and not make any, once they are there", async () => {
    const url = await server.freshUrl();
    const store = await opened(url);
    await store.append([entry("kept")]);
    await store.close();
    const schema = schemaOf(url);
    await server.run(
      `CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA ${schema} TO writer;
       GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO writer`,
    );
    const asWriter = new URL(url);
    asWriter.username = "writer";
    expect(await textsOf(await opened(asWriter.href))).toEqual(["kept"]);
  });

  it("has a posted task of one id in each of two partitions, and finds that of its own", async () => {
    const url = await server.freshUrl();
    for (const part of [1, 2]) {
      const store = await openPostgresStore({ url, part });
      open.push(store);
      await store.openLog();
      await store.commitLog(accepting("posted", `{"part":${part}}`));
    }
    const found = await Promise.all(open.map((store) => store.loggedTask("posted")));
    expect(found.map((task) => task?.body)).toEqual(['{"part":1}', '{"part":2}']);
  });
});

function schemaOf(url: string): string {
  return decodeURIComponent(new URL(url).searchParams.get("options") ?? "").replace("-c search_path=", "");
}
