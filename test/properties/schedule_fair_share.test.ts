/**
 * The law of sharing: while two can both be served, what they get by their weights differs by a bound.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FairShare } from "../../src/queue/fair_share.ts";

interface Client {
  readonly weight: number;
  readonly costs: readonly number[];
}

const COST_MAX = 50;
const client: fc.Arbitrary<Client> = fc.record({
  weight: fc.constantFrom(0.1, 0.5, 1, 2, 7),
  costs: fc.array(fc.double({ min: 0.01, max: COST_MAX, noNaN: true }), { minLength: 1, maxLength: 20 }),
});

/** Serves some items; the service that each got. */
class Server {
  readonly share = new FairShare<number>({
    weightOf: (who) => (this.#clients[who] as Client).weight,
    nameOf: String,
  });
  readonly got: number[];
  readonly #clients: readonly Client[];
  readonly #next: number[];

  constructor(clients: readonly Client[]) {
    this.#clients = clients;
    this.got = clients.map(() => 0);
    this.#next = clients.map(() => 0);
  }

  serve(isBlocked: (who: number) => boolean = () => false): number | undefined {
    const cost = (who: number): number => {
      const { costs } = this.#clients[who] as Client;
      return costs[(this.#next[who] as number) % costs.length] as number;
    };
    const who = this.share.next((each) => !isBlocked(each));
    if (who === undefined) return undefined;
    const paid = cost(who);
    this.share.served(who, paid);
    this.got[who] = (this.got[who] as number) + paid;
    this.#next[who] = (this.#next[who] as number) + 1;
    return who;
  }
}

/** Theorem 1 of Goyal, Vin and Cheng, and what rounding takes. */
function bound(left: Client, right: Client): number {
  return COST_MAX / left.weight + COST_MAX / right.weight + 1e-6;
}

describe("sharing", () => {
  it("gives all who always have something to serve the same by their weights, over any time", () => {
    fc.assert(
      fc.property(fc.array(client, { minLength: 2, maxLength: 6 }), fc.nat(300), (clients, startAt) => {
        const server = new Server(clients);
        for (const who of clients.keys()) server.share.join(who);
        for (let each = 0; each < startAt; each++) server.serve();
        const before = [...server.got];
        for (let each = 0; each < 300; each++) {
          server.serve();
          const normal = clients.map(
            ({ weight }, who) => ((server.got[who] as number) - (before[who] as number)) / weight,
          );
          const [least, most] = [Math.min(...normal), Math.max(...normal)].map((value) =>
            normal.indexOf(value),
          );
          expect((normal[most ?? 0] as number) - (normal[least ?? 0] as number)).toBeLessThanOrEqual(
            bound(clients[least ?? 0] as Client, clients[most ?? 0] as Client),
          );
        }
      }),
      { numRuns: 200 },
    );
  });

  it("keeps two who stay to the law while others come, go and are held", () => {
    const event = fc.record({
      who: fc.integer({ min: 2, max: 5 }),
      kind: fc.constantFrom("join", "leave", "hold", "serve"),
    });
    fc.assert(
      fc.property(
        fc.array(client, { minLength: 6, maxLength: 6 }),
        fc.array(event, { minLength: 50, maxLength: 400 }),
        (clients, events) => {
          const server = new Server(clients);
          const held = new Set<number>();
          for (const who of [0, 1]) server.share.join(who);
          for (const { who, kind } of events) {
            if (kind === "join") server.share.join(who);
            else if (kind === "leave") server.share.leave(who);
            else if (kind === "hold" && !held.delete(who)) held.add(who);
            server.serve((each) => held.has(each));
            const [first = 0, second = 0] = [0, 1].map(
              (each) => (server.got[each] as number) / (clients[each] as Client).weight,
            );
            expect(Math.abs(first - second)).toBeLessThanOrEqual(
              bound(clients[0] as Client, clients[1] as Client),
            );
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it("always serves somebody when somebody can be served", () => {
    fc.assert(
      fc.property(fc.array(client, { minLength: 1, maxLength: 8 }), fc.nat(7), (clients, alone) => {
        const server = new Server(clients);
        for (const who of clients.keys()) server.share.join(who);
        const only = alone % clients.length;
        for (let each = 0; each < 50; each++) expect(server.serve((who) => who !== only)).toBe(only);
      }),
    );
  });
});
