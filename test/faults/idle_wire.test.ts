/** A wire without calls, on real sockets. */
import { expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { ArmedClock } from "../../src/engine/items/armed_clock.ts";
import { open, post, serve, textOf, whole } from "./dispatch_server.ts";

it("keeps no timer, so that its process may end", async () => {
  const clock = new ArmedClock(systemClock);
  const server = await serve((socket) => socket.write(whole("done")));
  const transport = open({ clock });
  for (let round = 0; round < 2; round += 1) {
    const calls = [post(transport, server.origin), post(transport, server.origin)];
    expect(clock.isArmed).toBe(true);
    expect((await Promise.all(calls)).map(textOf)).toEqual(["done", "done"]);
    expect(clock.isArmed).toBe(false);
  }
});
