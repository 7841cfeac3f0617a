/** The transport's contract, put to the scripted one. */
import { describe, it } from "vitest";
import type { WireRequest } from "../../src/dispatch/transport.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { type Script, ScriptedTransport } from "../../src/testing/scripted_transport.ts";
import { transportContract } from "../../src/testing/transport_contract.ts";

describe("the scripted transport", () => {
  const make = async () => {
    const clock = new FakeClock();
    let givenBytes = 0;
    const some = new Uint8Array(10_000);
    const endless = function* () {
      for (;;) {
        givenBytes += some.length;
        yield some;
      }
    };
    const head = { status: 200, headers: { "x-contract": "yes" } };
    const answer = (body: Uint8Array): Script => ({
      kind: "answer",
      afterMs: 10,
      result: { ok: true, ...head, body },
    });
    const scripts: Readonly<Record<string, (request: WireRequest) => Script>> = {
      "/": () => answer(Buffer.from("pong")),
      "/hang": () => ({ kind: "hang" }),
      "/echo": ({ method = "POST", body }) => answer(Buffer.concat([Buffer.from(`${method} `), body])),
      "/endless": () => ({ kind: "stream", afterMs: 10, ...head, chunks: endless() }),
      "/torn": () => ({ kind: "stream", afterMs: 10, ...head, chunks: [some, some], isTorn: true }),
    };
    const transport = new ScriptedTransport(
      clock,
      (request) => scripts[request.path]?.(request) ?? { kind: "hang" },
    );
    const to = (path: string) => ({ origin: "http://test", path, headers: {}, body: Buffer.from("ping") });
    return {
      transport,
      answered: to("/"),
      unanswered: to("/hang"),
      echoed: to("/echo"),
      endless: to("/endless"),
      torn: to("/torn"),
      givenBytes: () => givenBytes,
      inFlight: () => transport.inFlight,
      pass: (ms: number) => clock.advance(ms),
    };
  };
  for (const { name, run } of transportContract(make)) it(name, run);
});
