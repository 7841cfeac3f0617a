/** Fault 96: destinations that lead inwards, in every spelling, with sinks on this machine that must see nothing. */
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createEgress, type Egress } from "../../src/egress/egress.ts";
import { CORPUS, NAMES } from "../egress/inward_urls.ts";

const sinks: Server[] = [];
let connections = 0;
let port = 0;
let egress: Egress;
const asked: string[] = [];

beforeAll(async () => {
  port = await sink("127.0.0.1", 0);
  for (const host of ["127.0.0.2", "::1"]) await sink(host, port).catch(() => undefined); // not every machine has them
  egress = createEgress({
    clock: systemClock,
    ports: [port],
    resolve: async (name) => {
      asked.push(name);
      return NAMES[name] ?? ["127.0.0.1"];
    },
  });
});

afterAll(() => {
  for (const one of sinks) one.close();
});

function sink(host: string, wanted: number): Promise<number> {
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(wanted, host, () => {
      sinks.push(server);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}

describe("fault 96: a destination that leads inwards", () => {
  it(`is blocked in each of ${CORPUS.length} spellings, and nothing on this machine sees it`, async () => {
    expect(CORPUS.length).toBeGreaterThan(100);
    const passed: string[] = [];
    for (const text of CORPUS) {
      const url = text.replace("PORT", String(port));
      const body = new TextEncoder().encode("secret");
      const call = { url, method: "POST", headers: {}, body, timeoutMs: 2_000, responseBytesMax: 1_024 };
      const result = await egress.request(call);
      if (result.ok || result.failure !== "blocked_destination")
        passed.push(`${text} ${JSON.stringify(result)}`);
      if (!result.ok) expect(result.message).not.toMatch(/127|::1|169\.254|10\./);
    }
    expect(passed).toEqual([]);
    expect(connections).toBe(0);
  });

  it("is not even sent to a name server when the name itself is local", () => {
    // Arabic digits stay what they are: a public name like others.
    const isPublic = (name: string): boolean => name.endsWith(".net") || name.startsWith("xn--");
    expect(asked.filter((name) => !isPublic(name))).toEqual([]);
  });

  it("is blocked though the environment names a proxy that would take it", async () => {
    process.env["HTTP_PROXY"] = `http://127.0.0.1:${port}`;
    process.env["http_proxy"] = `http://127.0.0.1:${port}`;
    try {
      const call = {
        url: "http://10.0.0.1/",
        method: "GET",
        headers: {},
        timeoutMs: 500,
        responseBytesMax: 1,
      };
      expect(await egress.request(call)).toMatchObject({ failure: "blocked_destination" });
      expect(connections).toBe(0);
    } finally {
      delete process.env["HTTP_PROXY"];
      delete process.env["http_proxy"];
    }
  });
});
