/**
 * What every `Transport` must do: one response or one failure, within one deadline, without ever rejecting; streams at the pace of
 * their readers (transport_stream_contract.ts).
 */
import assert from "node:assert/strict";
import type { WireFailure, WireRequest, WireResult } from "../dispatch/transport.ts";
import type { ContractCase } from "./contract_case.ts";
import { type StreamsUnderTest, streamCases } from "./transport_stream_contract.ts";

/** A transport with something at the other end. */
export interface TransportUnderTest extends StreamsUnderTest {
  /** Never answered. */
  readonly unanswered: WireRequest;
}

/** The cases. `make` returns a transport for each, which the case closes. */
export function transportContract(make: () => Promise<TransportUnderTest>): readonly ContractCase[] {
  const cases: Readonly<Record<string, (tested: TransportUnderTest) => Promise<void>>> = {
    "a response arrives whole, with its status and lower-case headers": answers,
    "requests may overlap": overlaps,
    "the deadline ends a request that is not answered": timesOut,
    "a deadline that is put off ends the request when it is put off no more": isPutOff,
    "a signal ends a request at once": aborts,
    "a signal that has fired already sends nothing": abortsBefore,
    "closing ends what is in flight, and later sends are answered aborted": closes,
    "a request has the method that it names": hasMethod,
    ...streamCases,
  };
  return Object.entries(cases).map(([name, run]) => ({
    name,
    run: async () => {
      const tested = await make();
      try {
        await run(tested);
      } finally {
        await tested.transport.close();
      }
    },
  }));
}

async function answers({ transport, answered, pass }: TransportUnderTest): Promise<void> {
  const sent = transport.send(answered, { timeoutMs: 5_000 });
  await pass(50);
  const result = await sent;
  assert.ok(result.ok, JSON.stringify(result));
  assert.equal(result.status, 200);
  assert.equal(result.headers["x-contract"], "yes");
  assert.equal(new TextDecoder().decode(result.body), "pong");
}

async function overlaps({ transport, answered, pass }: TransportUnderTest): Promise<void> {
  const sent = Array.from({ length: 20 }, () => transport.send(answered, { timeoutMs: 5_000 }));
  await pass(50);
  assert.ok((await Promise.all(sent)).every((result) => result.ok));
}

async function timesOut({ transport, unanswered, pass }: TransportUnderTest): Promise<void> {
  const sent = transport.send(unanswered, { timeoutMs: 30 });
  await pass(60);
  assertFailed(await sent, "timeout");
}

async function isPutOff({ transport, unanswered, answered, pass }: TransportUnderTest): Promise<void> {
  let asked = 0;
  const moreMs = (): number => {
    asked += 1;
    return asked < 3 ? 30 : 0;
  };
  const sent = transport.send(unanswered, { timeoutMs: 30, moreMs });
  await pass(120);
  assertFailed(await sent, "timeout");
  assert.equal(asked, 3);
  const patient = transport.send(answered, { timeoutMs: 1, moreMs: () => 5_000 });
  await pass(50);
  assert.ok((await patient).ok);
}

async function aborts({ transport, unanswered, pass }: TransportUnderTest): Promise<void> {
  const abort = new AbortController();
  const sent = transport.send(unanswered, { timeoutMs: 60_000, signal: abort.signal });
  await pass(20);
  abort.abort();
  assertFailed(await sent, "aborted");
}

async function abortsBefore({ transport, answered }: TransportUnderTest): Promise<void> {
  assertFailed(await transport.send(answered, { timeoutMs: 60_000, signal: AbortSignal.abort() }), "aborted");
}

async function closes({ transport, answered, unanswered, pass }: TransportUnderTest): Promise<void> {
  const sent = transport.send(unanswered, { timeoutMs: 60_000 });
  await pass(20);
  await transport.close();
  const result = await sent;
  assert.ok(!result.ok);
  assertFailed(await transport.send(answered, { timeoutMs: 60_000 }), "aborted");
}

async function hasMethod({ transport, echoed, pass }: TransportUnderTest): Promise<void> {
  for (const method of ["GET", "POST", "PUT", "DELETE", undefined] as const) {
    const body = method === "GET" || method === "DELETE" ? new Uint8Array() : echoed.body;
    const sent = transport.send({ ...echoed, method, body }, { timeoutMs: 5_000 });
    await pass(50);
    const result = await sent;
    assert.ok(result.ok, JSON.stringify(result));
    const text = new TextDecoder().decode(body);
    assert.equal(new TextDecoder().decode(result.body), `${method ?? "POST"} ${text}`);
  }
}

function assertFailed(result: WireResult, failure: WireFailure): void {
  assert.equal(result.ok ? `status ${result.status}` : result.failure, failure);
}
