/** Lines of the files of batches: what is sent, and what a line of results means. */
import { describe, expect, it } from "vitest";
import { requestLine, resultOf } from "../../../src/providers/batches/jsonl_lines.ts";

/** A result in short: its kind, id, status or code, and body. */
function short(line: unknown): unknown {
  const result = resultOf(Buffer.from(typeof line === "string" ? line : JSON.stringify(line)));
  switch (result.is) {
    case "answered":
      return [result.status, result.id, JSON.parse(Buffer.from(result.body).toString() || "null")];
    case "unfinished":
      return [result.code, result.id];
    case "unreadable":
      return result.message;
  }
}

const BODY = { choices: [{ message: { content: "Hi" } }] };
const REFUSED = { error: { message: "no", type: "invalid_request_error" } };

describe("a line of results", () => {
  it("is an answer with its status, body and request id", () => {
    const line = {
      id: "batch_req_1",
      custom_id: "t-1",
      response: { status_code: 200, request_id: "req_1", body: BODY },
      error: null,
    };
    const result = resultOf(Buffer.from(JSON.stringify(line)));
    if (result.is !== "answered") throw new Error(result.is);
    const { id, status, headers, value, body } = result;
    expect({ id, status, headers, value, body: Buffer.from(body).toString() }).toEqual({
      id: "t-1",
      status: 200,
      headers: { "x-request-id": "req_1" },
      value: BODY,
      body: JSON.stringify(BODY),
    });
  });

  it("keeps the bytes of its answer, numbers that no double holds among them", () => {
    const body = '{ "seed":12345678901234567890,"a":"\\u00fc" }';
    const line = `{"custom_id":"t-1","response":{"status_code":200,"body":${body}},"error":null}`;
    const result = resultOf(Buffer.from(line));
    expect(result.is === "answered" && Buffer.from(result.body).toString()).toBe(body);
  });

  it.each([
    [
      "a 400 whose error is null",
      { response: { status_code: 400, body: REFUSED }, error: null },
      400,
      REFUSED,
    ],
    ["a 500", { response: { status_code: 500, body: REFUSED } }, 500, REFUSED],
    [
      "a 400 whose body is in the error (vLLM)",
      { response: { status_code: 400 }, error: REFUSED },
      400,
      REFUSED,
    ],
    [
      "a 422 with an error that is not wrapped",
      { response: { status_code: 422, body: null }, error: { message: "x" } },
      422,
      { error: { message: "x" } },
    ],
    ["a status as a text", { response: { status_code: "429", body: REFUSED } }, 429, REFUSED],
    ["a body without a status", { response: { body: BODY } }, 200, BODY],
    ["a body with a status that is none", { response: { status_code: 7, body: BODY } }, 200, BODY],
    ["a body that is a text", { response: { status_code: 200, body: JSON.stringify(BODY) } }, 200, BODY],
    [
      "a body beside an error",
      { response: { status_code: 200, body: BODY }, error: { code: "x" } },
      200,
      BODY,
    ],
    ["a status without a body", { response: { status_code: 200, body: null }, error: null }, 200, null],
    [
      "no response, and the status in the error",
      { response: null, error: { code: 400, message: "x" } },
      400,
      { error: { code: 400, message: "x" } },
    ],
  ])("is answered with %s", (_, line, status, body) => {
    expect(short({ custom_id: "t-1", ...line })).toEqual([status, "t-1", body]);
  });

  it.each([
    [{ response: null, error: { code: "batch_expired", message: "It took too long." } }, "batch_expired"],
    [{ response: null, error: { code: "batch_cancelled", message: "x" } }, "batch_cancelled"],
    [{ response: null, error: { code: "something_new" } }, "something_new"],
    [{ response: null, error: { code: "the prompt was: secret", message: "secret" } }, "unknown"],
    [{ response: null, error: { code: 500 } }, "unknown"],
    [{ response: null, error: "secret" }, "unknown"],
    [{ response: null, error: null }, "unknown"],
    [{ error: {} }, "unknown"],
    [{}, "unknown"],
    [{ response: {}, error: null }, "unknown"],
    [{ response: "yes" }, "unknown"],
    [{ response: { status_code: 200, body: null }, error: { code: "server_error" } }, "server_error"],
  ])("is unfinished with %j", (line, code) => {
    expect(short({ custom_id: "t-1", ...line })).toEqual([code, "t-1"]);
    expect(
      JSON.stringify(resultOf(Buffer.from(JSON.stringify({ custom_id: "t-1", ...line })))),
    ).not.toContain("secret");
  });

  it.each([
    ['{"custom_id":"t-1","response":{"status_code":200,"bo', "a line of 52 bytes is torn or not JSON"],
    ["", "a line of 0 bytes is torn or not JSON"],
    ["[]", "a line of 2 bytes is torn or not JSON"],
    ["null", "a line of 4 bytes is torn or not JSON"],
    ['{"response":{}}', "a line of 15 bytes is without a custom_id"],
    ['{"custom_id":7}', "a line of 15 bytes is without a custom_id"],
    ['{"custom_id":null}', "a line of 18 bytes is without a custom_id"],
  ])("cannot be read if it is %s", (line, message) => {
    expect(short(line)).toBe(message);
  });

  it("cannot be read if its bytes are not UTF-8", () => {
    expect(resultOf(Buffer.from([0x7b, 0xff, 0x7d])).is).toBe("unreadable");
  });

  it("keeps an id that no payload has, since only the engine knows which it sent", () => {
    expect(short({ custom_id: "someone's own: 7", response: { status_code: 200, body: {} } })).toEqual([
      200,
      "someone's own: 7",
      {},
    ]);
  });
});

it("a line of a batch holds its body byte by byte", () => {
  const line = requestLine("t-1", "", Buffer.from('{ "seed":12345678901234567890,"a":"ü\\n" }'));
  expect(Buffer.from(line).toString()).toBe(
    '{"custom_id":"t-1","body":{ "seed":12345678901234567890,"a":"ü\\n" }}',
  );
});
