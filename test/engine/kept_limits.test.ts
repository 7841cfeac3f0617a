/** What lanes have learnt of their limits, from one engine to the next. */
import { describe, expect, it } from "vitest";
import { KeptLimits } from "../../src/engine/learnt/kept_limits.ts";
import { LaneLimits, type Permit } from "../../src/limits/limits.ts";
import type { ProviderSettings } from "../../src/providers/provider.ts";
import { LearntStore } from "../../src/store/learnt.ts";
import { FakeClock, MemoryDisk } from "../../src/testing/index.ts";

const ALPHA = {
  name: "alpha",
  protocol: "openai",
  baseUrl: "http://alpha.test/v1",
  key: "sk-canary",
} as const;
const LANE = { provider: "alpha", family: "m1" };
const LOAD = { inputTokens: 10, outputTokens: 10 };

function limitsOf(): LaneLimits {
  return new LaneLimits({ settings: {}, inFlightMax: 512, nowMs: 0, random: () => 0.5 });
}

async function storeOn(disk: MemoryDisk): Promise<LearntStore> {
  return LearntStore.open({ folder: "/state", disk, clock: new FakeClock() });
}

function keptOf(store: LearntStore, provider: ProviderSettings): KeptLimits {
  return new KeptLimits({
    ...{ learnt: store, clock: new FakeClock() },
    config: { providers: [provider] },
    lanes: () => [],
  });
}

/** Keeps what `limits` has learnt, and returns what the next engine begins with under the same account, or another. */
async function nextOf(
  limits: LaneLimits,
  provider: typeof ALPHA | { key: string } = ALPHA,
): Promise<LaneLimits> {
  const disk = new MemoryDisk();
  const first = await storeOn(disk);
  const lanes = [{ terms: LANE, limits, itemMs: 250, hasAnswered: true }];
  new KeptLimits({
    learnt: first,
    clock: new FakeClock(),
    config: { providers: [ALPHA] },
    lanes: () => lanes,
  });
  await first.close();
  expect(disk.text("/state/learnt.json")).not.toContain("canary");
  const next = limitsOf();
  const kept = keptOf(await storeOn(disk), { ...ALPHA, ...provider });
  const itemMs = kept.restore(0, LANE, next);
  expect(itemMs).toBe(provider === ALPHA ? 250 : undefined);
  return next;
}

describe("kept limits", () => {
  it("are those of the responses", async () => {
    const limits = limitsOf();
    limits.learn(0, { requestsPerMinute: 50, tokensPerMinute: 9_000 });
    const { requests, tokens } = (await nextOf(limits)).snapshot(0);
    expect([requests?.limit, tokens?.limit]).toEqual([50, 9_000]);
  });

  it("are the places that refusals have shown, and there is no burst of 64", async () => {
    const limits = limitsOf();
    const take = (count: number, nowMs: number): Permit[] =>
      Array.from({ length: count }, () => limits.reserve(nowMs, LOAD)).flatMap((taken) =>
        taken.ok ? [taken.permit] : [],
      );
    const held = take(20, 0);
    let refused = held.slice(12);
    for (const nowMs of [50, 100]) {
      for (const permit of refused) {
        limits.observe(nowMs, { kind: "rate_limited" }, permit);
        limits.release(nowMs, permit);
      }
      refused = take(8, nowMs); // tried in their place, and refused as well
    }
    expect(limits.reserve(200, LOAD)).toMatchObject({ ok: false, reason: "cooldown" });
    limits.release(1_000, held[0]!);
    const probe = limits.reserve(1_000, LOAD);
    expect(probe.ok).toBe(true);
    expect(limits.reserve(2_000, LOAD).ok).toBe(false);
    const next = await nextOf(limits);
    let sent = 0;
    while (next.reserve(0, LOAD).ok) sent += 1;
    expect(sent).toBeLessThanOrEqual(12);
    expect(next.snapshot(0).inFlightMax).toBe(12);
  });

  it.each([{ tokens: 90_000 }, { outputTokens: 60_000 }])(
    "are the tokens that refusals have shown: %j",
    async (hidden) => {
      const limits = limitsOf();
      limits.restoreKnown(0, 0, { hidden });
      expect((await nextOf(limits)).known(0)).toEqual({ hidden });
    },
  );

  it("are not those of another key", async () => {
    const limits = limitsOf();
    limits.learn(0, { requestsPerMinute: 50 });
    expect((await nextOf(limits, { key: "sk-other" })).snapshot(0).requests).toBeUndefined();
  });

  it.each([
    [null],
    [5],
    ["x"],
    [{ told: 5, hidden: [] }],
    [{ told: { requestsPerMinute: -1 }, hidden: { places: "all" } }],
    [{ hidden: { search: { heldMs: 5_000, sinceMs: -1, taken: 9, minuteHeld: 9, minuteRefused: 9 } } }],
  ])("are ignored when they read %j", async (value) => {
    const disk = new MemoryDisk();
    const store = await storeOn(disk);
    const kept = keptOf(store, ALPHA);
    store.put("limits", "alpha http://alpha.test/v1 0 m1", value);
    const limits = limitsOf();
    kept.restore(0, LANE, limits);
    expect(limits.snapshot(0)).toMatchObject({ requests: undefined, inFlightMax: 64 });
  });
});
