/** How many uploads a key may have under way. */
import { type ClientRequest, request } from "node:http";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type OpenaiProcess, OpenaiWorld } from "./openai_world.ts";

const HEAD = '--x\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n';

let world: OpenaiWorld;
let service: OpenaiProcess;
const begun: ClientRequest[] = [];

beforeEach(async () => {
  world = new OpenaiWorld();
  service = await world.start();
});

afterEach(async () => {
  for (const one of begun.splice(0)) one.destroy();
  await service.close();
  await world.remove();
});

/** Sends the beginning of a form, and resolves with the status of an answer that comes before its end. */
function begin(path: "/v0/files/a.jsonl" | "/v1/files", key = "alpha"): Promise<number | undefined> {
  const { origin } = new URL(service.baseURL);
  return new Promise((resolve, reject) => {
    const sent = request(`${origin}${path}`, {
      method: path === "/v1/files" ? "POST" : "PUT",
      headers: { authorization: `Bearer ${key}`, "content-type": "multipart/form-data; boundary=x" },
    });
    begun.push(sent);
    sent.on("error", reject);
    sent.on("response", (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.write(HEAD);
  });
}

it("takes 20 uploads of a key at a time, whichever interface they come by, and leaves other keys theirs", async () => {
  const statuses: unknown[] = [];
  const ends = Array.from({ length: 26 }, async (_, upload) => {
    statuses.push(await begin(upload % 2 === 0 ? "/v0/files/a.jsonl" : "/v1/files").catch(() => "cut off"));
  });
  await expect.poll(() => statuses, { timeout: 10_000 }).toEqual(Array(6).fill(429));
  const other = begin("/v0/files/a.jsonl", "beta");
  begun.at(-1)?.end("{}\r\n--x--\r\n");
  expect(await other).toBe(200);
  for (const one of begun.splice(0)) one.destroy();
  await Promise.all(ends);
  expect(statuses.slice(6)).toEqual(Array(20).fill("cut off"));
});
