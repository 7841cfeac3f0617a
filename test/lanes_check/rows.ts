/** The rows of the check of lanes, in the order of its table. */
import { CAPS, QUOTES, RECEIPTS } from "./money_rows.ts";
import { KILLS, MIXES, STALL, STALLED_ENGINES } from "./planned_rows.ts";
import type { Row } from "./row.ts";
import { DEEPSEEK_WEEK, SHED_FLEX } from "./tier_rows.ts";

const PREFIXES: Row = {
  name: "prefixes: workloads on a cache that models length, TTL, batch and realtime",
  passesAt: "cached share within 3 % of the oracle's; never dearer than without",
  trials: 50,
  weight: 0,
  async run() {
    return { faults: ["not there yet"], figures: "not measured", seeds: "none" };
  },
};

export const ROWS: readonly Row[] = [
  STALL,
  STALLED_ENGINES,
  MIXES,
  KILLS,
  CAPS,
  QUOTES,
  PREFIXES,
  RECEIPTS,
  SHED_FLEX,
  DEEPSEEK_WEEK,
];
