/**
 * The order of open shards: that of a walk over all of them, as the lanes did it before there was an index.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { type OpenPart, OpenParts, type OpenTicket } from "../../src/queue/open_parts.ts";
import { latestStartMs } from "../../src/queue/queue.ts";

interface NamedTicket extends OpenTicket {
  readonly name: number;
}

type Part = { -readonly [Key in keyof OpenPart<NamedTicket>]: OpenPart<NamedTicket>[Key] };
type IsWanted = (ticket: NamedTicket) => boolean;

/** The order as it is defined: parts as they were opened, and a walk over all of them for each answer. */
class WalkedParts {
  parts: Part[] = [];

  first(isWanted: IsWanted): Part | undefined {
    let best: Part | undefined;
    for (const part of this.parts)
      if (isWanted(part.ticket) && (best === undefined || startOf(part.ticket) < startOf(best.ticket)))
        best = part;
    return best;
  }

  isBefore(ticket: NamedTicket, isWanted: IsWanted): boolean {
    return this.parts.every((part) => startOf(ticket) < startOf(part.ticket) || !isWanted(part.ticket));
  }

  lastOpened(isWanted: IsWanted): Part | undefined {
    return this.parts.findLast(({ ticket }) => isWanted(ticket));
  }

  laterHalf(isWanted: IsWanted): Part | undefined {
    let longest: Part | undefined;
    for (const part of this.parts)
      if (isWanted(part.ticket) && part.end - part.next > (longest ? longest.end - longest.next : 0))
        longest = part;
    if (longest === undefined || longest.end - longest.next === 1) return longest;
    const half = { ...longest, next: longest.next + Math.floor((longest.end - longest.next) / 2) };
    longest.end = half.next;
    this.parts.push(half);
    return half;
  }

  take(part: Part, items: number): void {
    part.next += items;
    if (part.next >= part.end) this.parts.splice(this.parts.indexOf(part), 1);
  }

  close(isWanted: IsWanted): void {
    this.parts = this.parts.filter(({ ticket }) => !isWanted(ticket));
  }

  get items(): number {
    return this.parts.reduce((items, { next, end }) => items + end - next, 0);
  }
}

function startOf(ticket: NamedTicket): number {
  return latestStartMs(ticket, ticket.needMs);
}

const FIELDS = fc.record({
  deadlineMs: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 12 })),
  arrivedMs: fc.integer({ min: 0, max: 8 }),
  needMs: fc.integer({ min: 0, max: 4 }),
  items: fc.integer({ min: 1, max: 6 }),
});

/** Of four kinds of tickets, those that may go. */
const WANTED = fc.uniqueArray(fc.integer({ min: 0, max: 3 }), { maxLength: 4 });

const STEP = fc.oneof(
  { weight: 4, arbitrary: fc.record({ is: fc.constant("open" as const), fields: FIELDS }) },
  {
    weight: 6,
    arbitrary: fc.record({
      is: fc.constantFrom("first", "lastOpened", "laterHalf"),
      wanted: WANTED,
      items: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("close" as const), wanted: WANTED }) },
);

it("goes in the order of a walk over all open shards, whatever is opened, taken, halved and closed", () => {
  fc.assert(
    fc.property(fc.array(STEP, { maxLength: 60 }), (steps) => {
      const open = new OpenParts<NamedTicket>();
      const walked = new WalkedParts();
      steps.forEach((step, name) => {
        if (step.is === "open") {
          const ticket = { ...step.fields, name, runId: "run", inputTokens: 0, expectedOutputTokens: 0 };
          for (let kind = 0; kind < 4; kind += 1)
            expect(open.isBefore(ticket, isOf([kind]))).toBe(walked.isBefore(ticket, isOf([kind])));
          open.open(ticket, 0, ticket.items);
          walked.parts.push({ ticket, next: 0, end: ticket.items });
        } else if (step.is === "close") {
          open.close(isOf(step.wanted));
          walked.close(isOf(step.wanted));
        } else {
          const part = open[step.is](isOf(step.wanted));
          const expected = walked[step.is](isOf(step.wanted));
          expect(shown(part)).toEqual(shown(expected));
          if (part !== undefined && expected !== undefined) {
            const items = Math.min(step.items, part.end - part.next);
            open.take(part, items);
            walked.take(expected, items);
          }
        }
        expect([open.size, open.items]).toEqual([walked.parts.length, walked.items]);
      });
      const byStart = walked.parts.toSorted((one, other) => startOf(one.ticket) - startOf(other.ticket));
      expect([...open].map(shown)).toEqual(byStart.map(shown));
    }),
    { numRuns: 200 },
  );
});

it("takes nothing from a part that was closed meanwhile", () => {
  const open = new OpenParts<NamedTicket>();
  const ticket = {
    ...{ name: 0, runId: "run", items: 2, inputTokens: 0, expectedOutputTokens: 0 },
    ...{ deadlineMs: 5, arrivedMs: 0, needMs: 1 },
  };
  open.open(ticket, 0, 2);
  const part = open.first(() => true) as OpenPart<NamedTicket>;
  open.close(({ name }) => name === 0);
  open.open({ ...ticket, name: 1 }, 0, 2);
  open.take(part, 1);
  expect([open.size, open.items]).toEqual([1, 2]);
});

function isOf(kinds: readonly number[]): IsWanted {
  return ({ name }) => kinds.includes(name % 4);
}

function shown(part: OpenPart<NamedTicket> | undefined): readonly number[] | undefined {
  return part === undefined ? undefined : [part.ticket.name, part.next, part.end];
}
