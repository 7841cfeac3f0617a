/** Partitions of a worker while they close: how long they wait, on a clock that the test moves. */
import { expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { OwnedPartitions } from "../../src/fleet/owned_partitions.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

/** An open partition whose service never ends its close. */
async function opened() {
  const clock = new FakeClock();
  let fail = (_error: PerigeeError): void => undefined;
  const failed = new Promise<PerigeeError>((resolve) => {
    fail = resolve;
  });
  let isStoreClosed = false;
  const close = async (): Promise<void> => {
    isStoreClosed = true;
  };
  const service = { handler: () => undefined, failed, close: () => new Promise<void>(() => undefined) };
  const owned = new OwnedPartitions({
    ...{ clock, onNotice: () => undefined, onChange: () => undefined },
    open: async () => ({ service, store: { close }, closeFiles: async () => undefined }),
  });
  await owned.take(1);
  return { clock, owned, fail, isStoreClosed: () => isStoreClosed };
}

it("a partition whose service does not end its close is released after 5 s", async () => {
  const { clock, owned, isStoreClosed } = await opened();
  const released = owned.release(1);
  await clock.advance(4_999);
  expect([owned.state.closing, isStoreClosed()]).toEqual([[1], false]);
  await clock.advance(1);
  await released;
  expect([owned.state, isStoreClosed()]).toEqual([{ kept: [], closing: [], barred: new Set() }, true]);
});

it("a partition whose store has failed may be taken again after 1 s", async () => {
  const { clock, owned, fail } = await opened();
  fail(new PerigeeError("store_failed", "taken over"));
  await clock.advance(999);
  expect(owned.state.closing).toEqual([1]);
  await clock.advance(1);
  expect(owned.state.closing).toEqual([]);
});
