import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withAnswered } from "../../src/providers/further_turns.ts";
import type { Protocol } from "../../src/providers/provider.ts";

const added = (body: object, protocol: Protocol, answer: string, reply: string): object => {
  const provider = { settings: { name: "p", protocol, baseUrl: "http://p.test" } };
  const made = withAnswered(
    Buffer.from(JSON.stringify(body)),
    provider,
    { answer, reply },
    Number.POSITIVE_INFINITY,
  );
  return JSON.parse(Buffer.from(made).toString()) as object;
};

describe("two turns more in a request", () => {
  it("follow the last one, whatever the texts are, and nothing else changes", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), fc.jsonValue(), (text, answer, reply, other) => {
        const messages = [{ role: "user", content: text, messages: ["]"] }];
        const body = { other, note: "messages", model: "m", messages, last: { messages: [] } };
        expect(added(body, "openai", answer, reply)).toEqual(
          JSON.parse(
            JSON.stringify({
              ...body,
              messages: [
                ...messages,
                { role: "assistant", content: answer },
                { role: "user", content: reply },
              ],
            }),
          ),
        );
      }),
    );
  });

  it("have Gemini's form in contents, and leave echo's request as it is", () => {
    const body = { contents: [{ role: "user", parts: [{ text: "a" }] }] };
    expect(added(body, "gemini", "b", "c")).toEqual({
      contents: [
        ...body.contents,
        { role: "model", parts: [{ text: "b" }] },
        { role: "user", parts: [{ text: "c" }] },
      ],
    });
    expect(added({ prompt: "a" }, "echo", "b", "c")).toEqual({ prompt: "a" });
  });
});
