/** One connection, driven as undici drives it: when a call counts as stalled, and what its body counts against. */
import type { Socket } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Connection, type ConnectionClient, type ConnectionSettings } from "../../src/dispatch/connection.ts";
import { HeaderReader } from "../../src/dispatch/response_headers.ts";
import { TakerSemaphore } from "../../src/dispatch/taker_semaphore.ts";
import type { WireResult } from "../../src/dispatch/transport.ts";

const STALL_MS = 30_000;
const WHOLE = { moreMs: undefined, signal: undefined, upload: undefined, streamed: undefined };

function setUp(settings: Partial<ConnectionSettings> = {}) {
  const socket = { writableLength: 0, errored: null };
  const wire: ConnectionClient = {
    dispatch: () => undefined,
    socket: socket as Socket, // all that is read of it
    destroy: async () => undefined,
  };
  const owner = { released: () => undefined, discarded: () => undefined };
  const bounds: ConnectionSettings = {
    origin: "http://one.test",
    responseBytesMax: 1_000,
    ...{ smallBytes: 10, largeBytes: 100, downloadBytesMin: 1 },
    ...{ uploadStallMs: STALL_MS, downloadStallMs: STALL_MS },
    ...{
      largeBodies: new TakerSemaphore(1),
      middleBodies: { used: 0, max: 150 },
      unpacking: new TakerSemaphore(1),
    },
    headers: new HeaderReader(),
    ...settings,
  };
  const connection = new Connection(wire, owner, bounds);
  let result: WireResult | undefined;
  const start = (): void => {
    const request = { origin: bounds.origin, path: "/", headers: {}, body: Buffer.from("{}") };
    const resolve = (ended: WireResult): void => {
      result = ended;
    };
    connection.start({ request, headers: [], startedMs: 0, deadlineMs: 1e9, resolve, ...WHOLE });
    connection.onConnect(() => undefined);
  };
  const answer = (): void => void connection.onHeaders(200, [], () => undefined);
  /** Looks each second until then; returns the end of the call, if it came. */
  const watch = (fromMs: number, untilMs: number): WireResult | undefined => {
    for (let nowMs = fromMs; nowMs <= untilMs; nowMs += 1_000) connection.sweep(nowMs);
    return result;
  };
  return { connection, socket, bounds, start, answer, watch, result: () => result };
}

describe("a call", () => {
  it("may take as long as it likes to be answered once its request was written", () => {
    const { connection, socket, start, watch } = setUp();
    start();
    socket.writableLength = 2;
    connection.onBodySent();
    connection.onRequestSent();
    expect(watch(0, STALL_MS - 1_000)).toBeUndefined();
    socket.writableLength = 0;
    expect(watch(STALL_MS, 100 * STALL_MS)).toBeUndefined();
  });

  it("stalls when nothing of its request is taken for too long, and not while some is", () => {
    const { connection, socket, start, watch } = setUp();
    start();
    socket.writableLength = 2;
    for (let piece = 0; piece < 5; piece += 1) {
      connection.onBodySent();
      expect(watch(piece * STALL_MS, (piece + 1) * STALL_MS - 1_000)).toBeUndefined();
    }
    expect(watch(5 * STALL_MS, 7 * STALL_MS)).toMatchObject({ failure: "timeout" });
  });

  it("stalls when its answer stops within headers or body, not before the body has begun", () => {
    for (const at of ["heading", "blanks", "body"] as const) {
      const { connection, start, answer, watch } = setUp();
      start();
      connection.onRequestSent();
      connection.onResponseStarted();
      if (at !== "heading") {
        answer();
        connection.onData(Buffer.from(at === "blanks" ? " \r\n\t" : "{"));
      }
      expect(watch(0, STALL_MS - 1_000)).toBeUndefined();
      const ended = watch(STALL_MS, 10 * STALL_MS);
      if (at === "blanks") expect(ended).toBeUndefined();
      else expect(ended).toMatchObject({ failure: "timeout" });
    }
  });

  it("is surely not sent when its time is over before a byte of it was written, and in doubt after", () => {
    for (const isWritten of [false, true]) {
      const { connection, start, watch } = setUp();
      start();
      if (isWritten) connection.onBodySent();
      expect(watch(1e9, 1e9)).toMatchObject({ failure: isWritten ? "timeout" : "not_sent" });
      start();
      expect(watch(1e9, 1e9)).toMatchObject({ failure: "not_sent" }); // of the call before nothing is left
    }
  });
});

describe("bodies of several connections", () => {
  it("count with all their bytes against what they may take together, and with none when they have ended", () => {
    const chunk = fc.record({
      place: fc.nat({ max: 2 }),
      bytes: fc.integer({ min: 1, max: 60 }),
      ends: fc.nat(5),
    });
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 40 }), (chunks) => {
        const middleBodies = { used: 0, max: 150 };
        const shared = { middleBodies, largeBodies: new TakerSemaphore(1) };
        const all = [0, 1, 2].map(() => ({
          ...setUp(shared),
          bytes: 0,
          isOpen: false,
          isHeld: false,
          isLarge: false,
        }));
        const waiting: (typeof all)[number][] = [];
        for (const { place, bytes, ends } of chunks) {
          const one = all[place];
          if (one === undefined) continue;
          if (!one.isOpen) {
            one.start();
            one.connection.onRequestSent();
            one.answer();
            Object.assign(one, { bytes: 0, isOpen: true, isHeld: false, isLarge: false });
          }
          if (!one.isHeld) {
            one.bytes += bytes;
            const goesOn = one.connection.onData(Buffer.alloc(bytes, "x"));
            const others = all.reduce(
              (sum, { bytes: held, isOpen, isLarge }) => sum + (isOpen && !isLarge && held > 10 ? held : 0),
              0,
            );
            if (one.bytes > 10 && !one.isLarge && (one.bytes > 100 || others > 150)) {
              one.isLarge = goesOn;
              one.isHeld = !goesOn;
              if (one.isHeld) waiting.push(one);
            }
          }
          if (ends === 0 || one.bytes > 900) {
            if (one.isHeld) one.connection.cancel("aborted", "stopped");
            else one.connection.onComplete();
            one.isOpen = false;
            if (one.isHeld) waiting.splice(waiting.indexOf(one), 1);
            const next = one.isLarge ? waiting.shift() : undefined; // one is large at a time
            if (next !== undefined) Object.assign(next, { isHeld: false, isLarge: true });
          }
          const counted = all.reduce(
            (sum, { bytes: held, isOpen, isLarge }) => sum + (isOpen && !isLarge && held > 10 ? held : 0),
            0,
          );
          expect(middleBodies.used).toBe(counted);
        }
        for (const { connection, isOpen } of all) if (isOpen) connection.cancel("aborted", "stopped");
        expect(middleBodies.used).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});
