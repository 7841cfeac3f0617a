/**
 * Order: which shard is next among 40,000, and whose turn it is among 1,000 projects.
 *
 * Bounds: a push and a pop 2 us, a turn 1 us.
 */
import { FairShare } from "../../src/queue/fair_share.ts";
import { ShardQueue, type Ticket } from "../../src/queue/queue.ts";
import type { PartBench } from "../shared/harness.ts";

const TICKETS = 40_000;
const TURNS = 20_000;

export function open(): PartBench {
  const tickets = Array.from({ length: TICKETS }, (_, index) => ticket(index));
  const sorted = { name: "sorted once", run: () => tickets.toSorted((a, b) => a.deadlineMs - b.deadlineMs) };
  return {
    parts: [
      {
        name: "order: push and pop among 40,000 shards",
        of: "shard",
        calls: TICKETS,
        run: () => {
          const queue = new ShardQueue<Ticket>();
          for (const each of tickets) queue.push(each);
          for (let left = TICKETS; left > 0; left -= 1) queue.pop();
        },
        beside: sorted,
      },
      ...[2, 1_000].map((present) => ({
        name: `order: a turn among ${present.toLocaleString("en")} projects`,
        of: "turn",
        calls: TURNS,
        run: () => takeTurns(present),
        beside: { name: "round robin", run: () => goRound(present) },
      })),
    ],
  };
}

function ticket(index: number): Ticket {
  return {
    runId: "run",
    items: 256,
    inputTokens: 100_000,
    expectedOutputTokens: 50_000,
    deadlineMs: (index * 7_919) % 1_000_003,
    arrivedMs: index,
  };
}

function takeTurns(present: number): void {
  const share = new FairShare<number>({ weightOf: () => 1, nameOf: String });
  for (let who = 0; who < present; who += 1) share.join(who);
  for (let each = 0; each < TURNS; each += 1) share.served(share.next(() => true) as number, 1 + (each % 7));
}

function goRound(present: number): number {
  const served = new Map<number, number>();
  for (let each = 0; each < TURNS; each += 1) {
    const who = each % present;
    served.set(who, (served.get(who) ?? 0) + 1 + (each % 7));
  }
  return served.size;
}
