/** Callers that wait get the thread more often. */
import { fastify } from "fastify";
import { expect, it } from "vitest";
import { WaitingCallers } from "../../src/service/operate/waiting_callers.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

it("gives the engine smaller turns while eight callers wait, and a little longer", async () => {
  const clock = new FakeClock();
  const callers = new WaitingCallers(clock);
  const app = fastify();
  callers.watch(app);
  const answers: (() => void)[] = [];
  app.get("/", () => new Promise((resolve) => void answers.push(() => resolve({}))));
  const url = await app.listen({ port: 0 });
  const waiting: Promise<unknown>[] = [];
  const call = async (count: number): Promise<void> => {
    for (let calls = 0; calls < count; calls += 1)
      waiting.push(fetch(url, { headers: { connection: "close" } }).then((response) => response.text()));
    await expect.poll(() => answers.length).toBe(waiting.length);
  };
  await call(7);
  expect(callers.callsPerTurn).toBeUndefined();
  await call(1);
  expect(callers.callsPerTurn).toBe(32);
  for (const answer of answers) answer();
  await Promise.all(waiting);
  await app.close();
  await clock.advance(99);
  expect(callers.callsPerTurn).toBe(32);
  await clock.advance(1);
  expect(callers.callsPerTurn).toBeUndefined();
});
