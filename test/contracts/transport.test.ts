/** The transport's contract, put to the scripted one. */
import { describe, it } from "vitest";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { ScriptedTransport } from "../../src/testing/scripted_transport.ts";
import { transportContract } from "../../src/testing/transport_contract.ts";

describe("the scripted transport", () => {
  const make = async () => {
    const clock = new FakeClock();
    const body = new TextEncoder().encode("pong");
    const transport = new ScriptedTransport(clock, (request) =>
      request.path === "/hang"
        ? { kind: "hang" }
        : {
            kind: "answer",
            afterMs: 10,
            result: { ok: true, status: 200, headers: { "x-contract": "yes" }, body },
          },
    );
    const answered = { origin: "http://test", path: "/", headers: {}, body: new Uint8Array() };
    return {
      transport,
      answered,
      unanswered: { ...answered, path: "/hang" },
      pass: (ms: number) => clock.advance(ms),
    };
  };
  for (const { name, run } of transportContract(make)) it(name, run);
});
