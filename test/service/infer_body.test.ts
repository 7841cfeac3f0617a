/** Bodies of POST /v0/infer/ that are not lists: refused alike, whether they are read whole or as they arrive. */
import { describe, expect, it } from "vitest";
import { openWorld, type World } from "./world.ts";

/** With it a body is read as it comes. */
const LONG = Buffer.alloc(1024 * 1024, " ");

const WAYS: Readonly<Record<string, (bytes: Buffer) => Buffer | ReadableStream>> = {
  whole: (bytes) => bytes,
  long: (bytes) => Buffer.concat([bytes, LONG]),
  "long, blank before it": (bytes) => Buffer.concat([LONG, bytes]),
  "chunked, byte by byte": (bytes) =>
    new ReadableStream({
      start: (controller) => {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    }),
};

async function refusals({ url }: World, bytes: Buffer): Promise<readonly unknown[]> {
  const found: unknown[] = [];
  for (const [way, bodyOf] of Object.entries(WAYS)) {
    const response = await fetch(`${url}/v0/infer/`, {
      method: "POST",
      headers: { authorization: "Bearer key-one", "content-type": "application/json" },
      body: bodyOf(bytes),
      ...(way.startsWith("chunked") ? { duplex: "half" } : {}),
    } as RequestInit);
    const { error } = (await response.json()) as { readonly error: { readonly from_element?: number } };
    const { from_element: _place, ...rest } = error;
    found.push({ status: response.status, ...rest });
  }
  return found;
}

function refusal(status: number, message: string, param: string | null): readonly object[] {
  const error = { status, type: "invalid_request_error", code: "invalid_request", message, param };
  return Object.keys(WAYS).map(() => error);
}

describe("a body that is not a list", () => {
  it.each(['{"a":1}', "3", '"x"', "null", "", " \n"])("is 422: %j", async (text) => {
    const found = await refusals(await openWorld(), Buffer.from(text));
    expect(found).toEqual(refusal(422, "the body must be a JSON array of items", "body"));
  });

  it.each(["nul", '{"a":1', '[{"a":', "[,]", "[]]", '{"a":1}[]', "\u0000"])(
    "is 400 when it is not JSON: %j",
    async (text) => {
      const found = await refusals(await openWorld(), Buffer.from(text));
      expect(found).toEqual(refusal(400, "the body is not JSON", null));
    },
  );

  it.each([[[0x22, 0xff, 0x22]], [[0x5b, 0x22, 0xff, 0x22, 0x5d]]])(
    "is 400 when it is not UTF-8: %j",
    async (bytes) => {
      const found = await refusals(await openWorld(), Buffer.from(bytes));
      expect(found).toEqual(refusal(400, "the body is not UTF-8", null));
    },
  );

  it.each([
    ['[{"model":"echo:a","input":"x"},{"model":"echo:a","input":"x","input":"y"}]', 1, "input"],
    ['[{"model":"echo:a","input":"x","\\u006dodel":"echo:b"}]', 0, "model"],
    ['[{"model":"echo:a","input":"x","generation_config":{"seed":1,"seed":2}}]', 0, "seed"],
  ])("is 422 when an item has a member twice, as in files: %s", async (text, index, name) => {
    const found = await refusals(await openWorld(), Buffer.from(text));
    const message = `item ${index}: the member "${name}" occurs twice in one object`;
    expect(found).toEqual(refusal(422, message, String(index)));
  });

  it("is 422 without being kept when it is longer than what is read whole elsewhere", async () => {
    const world = await openWorld();
    const { status, json } = await world.call("POST", "/v0/infer/", {
      body: JSON.stringify({ input: "x".repeat(11 * 1024 * 1024) }),
    });
    expect([status, json.error.param]).toEqual([422, "body"]);
    const { status: next } = await world.call("POST", "/v0/infer/", {
      body: [{ model: "echo:a", input: "x", sla: 5 }],
    });
    expect(next).toBe(200);
  });
});
