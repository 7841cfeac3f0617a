import { expect, it, vi } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { untilFinal } from "../../src/satellites/sdk/until_final.ts";

it("notices an end that happens while it reads", async () => {
  let tell: (view: string) => void = () => undefined;
  const listen = (told: typeof tell) => {
    tell = told;
    return () => undefined;
  };
  const look = async () => {
    tell("final");
    return undefined;
  };
  expect(await untilFinal({ listen, look, cancel: async () => undefined }, signal())).toBe("final");
});

it("does not say that it waits for what is final already", async () => {
  const onWait = vi.fn();
  const stop = vi.fn();
  const awaited = { listen: () => stop, look: async () => "final", cancel: async () => undefined };
  expect(await untilFinal(awaited, signal(), onWait)).toBe("final");
  expect(onWait).not.toHaveBeenCalled();
  expect(stop).toHaveBeenCalledTimes(1);
});

it("cancels what it waits for when it is aborted, but not when the process closes", async () => {
  for (const [code, times] of [
    ["interrupted", 1],
    ["closed", 0],
  ] as const) {
    const stopping = new AbortController();
    const cancel = vi.fn().mockRejectedValue(new PerigeeError("not_found", "it is gone"));
    const awaited = { listen: () => () => undefined, look: async () => undefined, cancel };
    const waiting = untilFinal(awaited, stopping.signal, () => stopping.abort(new PerigeeError(code, code)));
    await expect(waiting).rejects.toMatchObject({ code });
    expect(cancel).toHaveBeenCalledTimes(times);
  }
});

function signal(): AbortSignal {
  return new AbortController().signal;
}
