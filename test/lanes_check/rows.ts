/** The rows of the check of lanes, in the order of its table. */
import { CAPS, QUOTES, RECEIPTS } from "./money_rows.ts";
import { KILLS, MIXES, STALL, STALLED_ENGINES } from "./planned_rows.ts";
import { PREFIXES } from "./prefix_row.ts";
import type { Row } from "./row.ts";
import { DEEPSEEK_WEEK, SHED_FLEX } from "./tier_rows.ts";

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
