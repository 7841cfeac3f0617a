/** Rows of the planner in its own world, and of engines whose batches stall. */
import type { BatchFake } from "../batch_servers/fake.ts";
import { BatchWorld } from "../engine/batches/batch_world.ts";
import { killTrial } from "../engine/batches/kill_trials.ts";
import { WIRES, type WireCase } from "../engine/batches/wires.ts";
import { type MixRow, runDay, runMixes, runStallTable } from "../queue/plan/tables.ts";
import { eachSeed, faultsOf, percentOf, type Row, seedsOf } from "./row.ts";

export const STALL: Row = {
  name: "stall at k % for k = 0, 10, ... 100 x 3 wires, 10,000 items, 24 h",
  passesAt:
    "every item on time; paid requests = items where finished lines can be fetched; double cost booked",
  trials: 5,
  weight: 1,
  async run(terms) {
    const rows = (await eachSeed(terms, (seed) => runStallTable([seed]))).flat();
    const fetched = rows.filter(({ wire }) => wire !== "gemini");
    const hidden = rows.filter(({ wire }) => wire === "gemini");
    const dearest = Math.max(...fetched.map(({ paidUsd, bestUsd }) => paidUsd / bestUsd));
    return {
      faults: faultsOf({
        "nothing is late": rows.every(({ late, open }) => late + open === 0),
        "no request is paid twice": fetched.every(({ paidRequests, items }) => paidRequests === items),
        "at most 1.02 of the best price": dearest <= 1.02,
        "what is paid twice is booked": hidden.every(
          ({ twiceUsd, bookedTwiceUsd }) => Math.abs(twiceUsd - bookedTwiceUsd) < 1e-6,
        ),
      }),
      figures: `${rows.length} batches of 10,000: 0 late wanted, ${dearest.toFixed(4)} of the best price at worst; at most ${Math.max(...hidden.map(({ paidRequests }) => paidRequests)) - 10_000} paid twice at gemini`,
      seeds: `1..${rows.length / 33}`,
    };
  },
};

/** Nothing of a batch that has not ended can be fetched there, not even once it was cancelled. */
const HIDE_FINISHED = new Set(["gemini", "openrouter"]);
const STALL_SHARES = [0, 0.5, 1, 0.1, 0.9, 0.3, 0.7];

/** One engine whose batches stall; what is wrong. */
async function stalledEngine(wire: WireCase, share: number, items: number): Promise<readonly string[]> {
  let fake: BatchFake | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = wire.make({ seed: 1, nowMs, stalledShare: share });
      return { [wire.origin]: fake };
    },
    { ...wire.config, limits: { [wire.name]: { requestsPerMinute: 300 } } },
  );
  world.input(items, wire.model);
  const { counts, cost } = await world.run({ sla: 1_440 });
  const charges = (fake as unknown as BatchFake).ledger.charges.filter(({ nanoUsd }) => nanoUsd > 0);
  const books = charges.reduce((sum, { nanoUsd }) => sum + nanoUsd, 0) / 1e9;
  const twice = charges.length - items;
  const rounding = items / 1e9;
  const faults = faultsOf({
    "every item is answered on time": counts.completed === items,
    "the books are between what is billed and what is in doubt":
      cost.billed_usd <= books + rounding && books <= cost.billed_usd + cost.ambiguous_usd + rounding,
    "what is paid twice is at most 1 % where finished lines can be fetched":
      HIDE_FINISHED.has(wire.name) || twice <= items / 100,
  });
  return faults.map(
    (fault) => `${wire.name}, ${percentOf(share)} stalled, seed 1: ${fault} (${twice} twice)`,
  );
}

export const STALLED_ENGINES: Row = {
  name: "the same with whole engines against fake servers: k = 0, 50, 100 %, then others as time allows",
  passesAt: "every item on time; books = billed, up to what is in doubt",
  trials: WIRES.length * STALL_SHARES.length,
  weight: 20,
  run: (terms) => runStalledEngines(terms, 10_000),
};

/** With so many items a batch. */
export async function runStalledEngines(
  terms: Parameters<Row["run"]>[0],
  items: number,
): ReturnType<Row["run"]> {
  const results = await eachSeed(terms, (trial) => {
    const wire = WIRES[(trial - 1) % WIRES.length] as WireCase;
    const share = STALL_SHARES[Math.floor((trial - 1) / WIRES.length)] ?? 0;
    return stalledEngine(wire, share, items);
  });
  const figures = `${results.length} engines with ${items} items each`;
  return { faults: results.flat(), figures, seeds: "1 (of each engine)" };
}

export const MIXES: Row = {
  name: "200 random mixes (5 models, 1 to 8 projects, 2 min to 48 h, loads 0.5 to 0.98), and a day of traffic",
  passesAt: "0 feasible deadlines missed; cost <= 1.02 of the oracle's; the day >= 45 % below realtime",
  trials: 200,
  weight: 1,
  async run(terms) {
    const rows = (await eachSeed(terms, (seed) => runMixes([seed]))).flat();
    const day = runDay(1);
    const sum = (read: (row: MixRow) => number): number => rows.reduce((total, row) => total + read(row), 0);
    const dearer = sum(({ paidUsd }) => paidUsd) / sum((row) => row.oracleUsd);
    const near = rows.filter(({ paidUsd, oracleUsd }) => paidUsd <= 1.02 * oracleUsd).length;
    const worst = Math.max(...rows.map(({ paidUsd, oracleUsd }) => paidUsd / oracleUsd));
    const saved = 1 - day.paidUsd / day.realtimeUsd;
    const late = sum((row) => row.late) + day.late;
    return {
      faults: faultsOf({
        "nothing feasible is late": late === 0,
        "together at most 1.02 of the oracle's cost": dearer <= 1.02,
        "85 of 100 mixes at most 1.02 of the oracle's": near >= 0.85 * rows.length,
        "the day is at least 45 % below realtime": saved >= 0.45,
      }),
      figures: `${late} late; ${dearer.toFixed(4)} of the oracle together, ${percentOf(near / rows.length)} within 1.02, the worst ${worst.toFixed(3)}; the day ${percentOf(saved)} below realtime`,
      seeds: `${seedsOf(rows)}, day 1`,
    };
  },
};

export const KILLS: Row = {
  name: "kills at random moments and lost answers, 3 wires",
  passesAt: "one batch a submission, each item billed once, books = the fake's own to the nano-dollar",
  trials: 1_000,
  weight: 11,
  async run(terms) {
    const results = await eachSeed(terms, (seed) =>
      killTrial(WIRES[(seed - 1) % WIRES.length] as WireCase, seed),
    );
    return {
      faults: results.filter((wrong) => wrong.length > 0).map((wrong) => wrong.join(" ")),
      figures: `${results.length} trials of 60 items with 4 kills each`,
      seeds: `${seedsOf(results)} (openai, anthropic, gemini in turn)`,
    };
  },
};
