import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { SharedSignals } from "../../src/dispatch/shared_signals.ts";

describe("calls under one signal", () => {
  it("share one listener, which is removed with the last call", () => {
    const { signal } = new AbortController();
    const shared = new SharedSignals();
    const ends = Array.from({ length: 3 }, () => (): void => undefined);
    const listeners: number[] = [];
    for (const end of ends) shared.follow(signal, end);
    for (const end of ends) {
      listeners.push(getEventListeners(signal, "abort").length);
      shared.forget(signal, end);
      shared.forget(signal, end); // twice changes nothing
    }
    expect(listeners).toEqual([1, 1, 1]);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("end together when it is aborted, but those that were forgotten", () => {
    const controller = new AbortController();
    const shared = new SharedSignals();
    const ended: number[] = [];
    const ends = [1, 2, 3].map((call) => (): void => void ended.push(call));
    for (const end of ends) shared.follow(controller.signal, end);
    shared.forget(controller.signal, ends[1] as () => void);
    controller.abort();
    expect(ended).toEqual([1, 3]);
  });
});
