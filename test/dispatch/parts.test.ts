import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BodyCollector } from "../../src/dispatch/body.ts";
import { HeaderReader } from "../../src/dispatch/response_headers.ts";
import { TakerSemaphore } from "../../src/dispatch/taker_semaphore.ts";
import { giveBackPlain } from "../../src/large_bytes.ts";

describe("a body collector", () => {
  it("returns what was added, for any announced length", () => {
    const chunks = fc.array(fc.uint8Array({ maxLength: 400 }), { maxLength: 30 });
    const announced = fc.option(fc.nat(500_000), { nil: undefined });
    const body = new BodyCollector(100_000);
    fc.assert(
      fc.property(chunks, announced, (parts, announcedBytes) => {
        body.reset(announcedBytes);
        for (const part of parts) expect(body.add(part)).toBe(true);
        expect(Buffer.compare(body.take(), Buffer.concat(parts))).toBe(0);
        expect(body.length).toBe(0);
      }),
    );
  });

  it("leaves a body as it is until that is given back, whatever else is collected", () => {
    const step = fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: 90_000 }), { maxLength: 8 }),
      announced: fc.option(fc.nat(500_000), { nil: undefined }),
      end: fc.constantFrom("kept", "given back", "given back twice", "dropped"),
      givesBackFirst: fc.boolean(),
    });
    let fill = 0;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const body = new BodyCollector(1_000_000);
        const kept: { readonly body: Uint8Array; readonly bytes: Buffer }[] = [];
        for (const { sizes, announced, end, givesBackFirst } of steps) {
          if (givesBackFirst) giveBackPlain(kept.shift()?.body ?? new Uint8Array(0));
          body.reset(announced);
          fill += 1;
          for (const size of sizes) body.add(Buffer.alloc(size, fill));
          if (end === "dropped") continue;
          const taken = body.take();
          if (end === "kept") kept.push({ body: taken, bytes: Buffer.from(taken) });
          else giveBackPlain(taken);
          if (end === "given back twice") giveBackPlain(taken);
        }
        for (const each of kept) expect(Buffer.compare(each.body, each.bytes)).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  it("collects into memory that was given back", () => {
    const body = new BodyCollector(1_000_000);
    const collected = (): Uint8Array => {
      body.reset(300_000);
      for (let part = 0; part < 4; part += 1) body.add(Buffer.alloc(70_000));
      return body.take();
    };
    const first = collected();
    expect(collected().buffer).not.toBe(first.buffer);
    giveBackPlain(first);
    const later = Array.from({ length: 20 }, () => collected().buffer);
    expect(later.filter((each) => each === first.buffer)).toHaveLength(1);
  });

  it("hands a single chunk on without a copy", () => {
    const body = new BodyCollector(10);
    const chunk = Buffer.from("whole");
    body.reset(5);
    body.add(chunk);
    expect(body.take()).toBe(chunk);
  });

  it("refuses the chunk that passes its bound", () => {
    const body = new BodyCollector(10);
    body.reset(undefined);
    expect(body.add(Buffer.alloc(10))).toBe(true);
    expect(body.add(Buffer.alloc(1))).toBe(false);
  });
});

describe("places", () => {
  it("go to takers in the order they came, leaving out those that left", () => {
    const places = new TakerSemaphore(1);
    const order: string[] = [];
    const taker = (name: string) => ({ onPlace: () => void order.push(name) });
    const [first, second, third] = [taker("first"), taker("second"), taker("third")] as const;
    expect(places.take(first)).toBe(true);
    expect(places.take(second)).toBe(false);
    expect(places.take(third)).toBe(false);
    expect(places.leave(second)).toBe(true);
    expect(places.leave(second)).toBe(false);
    places.release();
    expect(order).toEqual(["third"]);
    places.release();
    expect(places.take(second)).toBe(true);
  });
});

describe("a header reader", () => {
  it("reads every answer as if it were the first, though it remembers the last", () => {
    const texts = fc.stringMatching(/^[A-Za-z0-9-]{1,70}$/);
    const headers = fc.array(fc.tuple(texts, texts), { maxLength: 6 });
    const reader = new HeaderReader();
    fc.assert(
      fc.property(headers, fc.integer({ min: 1, max: 12 }), (list, times) => {
        const raw = list.flat().map((text) => Buffer.from(text, "latin1"));
        for (let count = 0; count < times; count += 1)
          expect(reader.read(raw)).toEqual(new HeaderReader().read(raw));
      }),
    );
  });
});
