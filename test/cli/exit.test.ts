import { once } from "node:events";
import { createServer } from "node:net";
import { expect, it } from "vitest";
import { errorJson, exitCodeOf } from "../../src/cli/exit.ts";
import { PerigeeError } from "../../src/errors.ts";

it("The JSON of a run that a full disk ended says that it is paused, and of any other error that it failed", () => {
  const error = new PerigeeError("disk_full", "no space left");
  const shown = { code: "disk_full", message: "no space left" };
  expect(JSON.parse(errorJson(error, "paused"))).toEqual({
    status: "paused",
    reason: "disk_full",
    error: shown,
  });
  expect(JSON.parse(errorJson(error))).toEqual({ status: "failed", error: shown });
});

it("A port that is taken is a mistake of the call, which names it", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as { port: number };
  const [error] = await once(createServer().listen(port, "127.0.0.1"), "error").catch((thrown) => [thrown]);
  holder.close();
  expect(exitCodeOf(error)).toBe(2);
  const message = `port ${port} of 127.0.0.1 is taken: end the process that has it, or choose another port`;
  expect(JSON.parse(errorJson(error)).error).toEqual({ code: "usage", message });
});
