/**
 * Slots of destinations, by bottleneck.
 */
import { expect, it, vi } from "vitest";
import { BottleneckDestinations } from "../../src/jobs/destinations.ts";

it("gives as many slots of a destination at once as it may have, in order, and forgets those not in use", async () => {
  const destinations = new BottleneckDestinations();
  const given: string[] = [];
  const releases: (() => void)[] = [];
  const ask = (name: string, concurrency: number, label: string): void =>
    destinations.ask(name, concurrency, (release) => {
      given.push(label);
      releases.push(release);
    });
  for (const label of ["a1", "a2", "a3"]) ask("a", 2, label);
  ask("b", 1, "b1");
  expect(given).toEqual([]);
  await vi.waitFor(() => expect(given).toHaveLength(3));
  expect([...given].sort()).toEqual(["a1", "a2", "b1"]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(given).toHaveLength(3);
  releases[given.indexOf("a1")]?.();
  await vi.waitFor(() => expect(given.at(-1)).toBe("a3"));
  for (const release of releases) release();
  await vi.waitFor(() => expect(destinations.size).toBe(0));
});
