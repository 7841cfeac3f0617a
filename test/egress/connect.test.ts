/** Guarded connections for other protocols than HTTP. */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress, type EgressOptions } from "../../src/egress/egress.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A port on loopback, and how many connections it saw. */
async function sink(): Promise<{ readonly port: number; readonly seen: () => number }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket.end("hello")));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: (server.address() as AddressInfo).port, seen: () => sockets.length };
}

function egress(options: Partial<EgressOptions> = {}) {
  return createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.0/8"]), ...options });
}

describe("a guarded connection", () => {
  it("reaches an allowed address at any port, and what it says can be read", async () => {
    const { port } = await sink();
    const result = await egress().connect({ host: "127.0.0.1", port, timeoutMs: 5_000 });
    expect(result.ok).toBe(true);
    if (!result.ok) return;
    let text = "";
    for await (const chunk of result.socket) text += chunk;
    expect(text).toBe("hello");
  });

  it("is refused to private addresses in every spelling, and to names that lead there", async () => {
    const { port, seen } = await sink();
    const closed = egress({ allow: new AllowList([]), resolve: async () => ["127.0.0.1"] });
    const hosts = ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "::ffff:127.0.0.1", "::1", "localhost"];
    for (const host of [...hosts, "mail.test.com", "user@127.0.0.1", "127.0.0.1/x#"]) {
      const result = await closed.connect({ host, port, timeoutMs: 5_000 });
      expect(result, host).toMatchObject({ ok: false, failure: "blocked_destination" });
    }
    expect(seen()).toBe(0);
  });

  it("is not_sent where nobody listens, and ends with the signal", async () => {
    const { port } = await sink();
    closing.shift()?.();
    expect(await egress().connect({ host: "127.0.0.1", port, timeoutMs: 5_000 })).toMatchObject({
      ok: false,
      failure: "not_sent",
    });
    const signal = AbortSignal.abort();
    expect(await egress().connect({ host: "127.0.0.1", port, timeoutMs: 5_000, signal })).toMatchObject({
      ok: false,
      failure: "aborted",
    });
  });
});
