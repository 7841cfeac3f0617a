/** Two turns that follow an encoded request, for any texts. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withAnswered } from "../../src/providers/further_turns.ts";

const added = (
  body: object,
  protocol: Parameters<typeof withAnswered>[1],
  answer: string,
  reply: string,
): object =>
  JSON.parse(
    Buffer.from(withAnswered(Buffer.from(JSON.stringify(body)), protocol, answer, reply)).toString(),
  ) as object;

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
