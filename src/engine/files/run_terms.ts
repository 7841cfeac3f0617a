/**
 * The terms of a run that is called again: what the caller may change holds for what is open from that call on.
 *
 *   sla     counts from the call that changes it; prices of what is answered stay as they are
 *   model   answers what is open; each line says which model answered it, when that is not its own
 *   order   stays: the output cannot be both
 *
 * Caps, limits, keys and base URLs are not recorded with a run, so another call simply has its own.
 */
import type { Moment } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { priceFactor, type RateCard } from "../../price/factor.ts";
import type { LayoutTerms } from "../../work/line_layout.ts";
import { jumpMsSince } from "../../work/moment.ts";
import type { CostTerms } from "../journal/item_cost.ts";
import { PriceTable } from "../journal/price_table.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { TaskBody } from "./task_body.ts";

/** What a call says of them; see `RunOptions`. */
export interface AskedTerms extends LayoutTerms {
  readonly sla?: number;
  readonly model?: string;
  readonly ordered?: boolean;
  readonly accepted?: Moment;
}

/** Throws `conflict` when a run that began in one order or format is called for another. */
export function refuseOtherLayout(before: TaskBody, asked: AskedTerms): void {
  refuseOtherOrder(before, asked);
  refuseOtherFormat(before, asked);
}

function refuseOtherOrder({ isOrdered, out }: TaskBody, { ordered = false }: AskedTerms): void {
  if (isOrdered === ordered) return;
  const [began, asked] = isOrdered
    ? ["in the order of the input", "in any"]
    : ["in any order", "in that of the input"];
  throw new PerigeeError(
    "conflict",
    `${out} was begun with its answers ${began}, now they are requested ${asked}: repeat the order that the run began with, or use another output`,
  );
}

function refuseOtherFormat({ format: begun, out }: TaskBody, { format = "perigee" }: AskedTerms): void {
  const before = begun ?? "perigee";
  if (before === format) return;
  throw new PerigeeError(
    "conflict",
    `${out} was begun with lines in the format ${before}, now the format ${format} is requested: repeat the format that the run began with, or use another output`,
  );
}

/**
 * Says that answers which an earlier call paid for, and which this one keeps, are of another model or schema than this one names.
 * `schema`: as JSON.
 */
export function noteOtherTerms(
  { notice }: Pick<EngineStorage, "notice">,
  before: TaskBody,
  { model, schema }: { readonly model?: string; readonly schema?: string | undefined },
  answers = 0,
): void {
  if (answers === 0) return;
  const have = answers === 1 ? "1 answer of an earlier call is" : `${answers} answers of earlier calls are`;
  const of = (name: string | undefined): string => name ?? "the models that the lines name";
  const way = "to ask everything again, use another output";
  if (before.model !== model)
    notice(
      `${have} kept, the last of which was for ${of(before.model)}; ${of(model)} answers only what is open: ${way}`,
    );
  if (schema !== undefined && JSON.stringify(before.call?.schema) !== JSON.stringify(JSON.parse(schema)))
    notice(`${have} kept without a check against this schema: ${way}`);
}

/** The terms of an unfinished run for this call, which is made at `now`. */
export function withTerms(before: TaskBody, options: AskedTerms, now: Moment): TaskBody {
  if (before.slaMinutes === options.sla && before.model === options.model) return before;
  const { slaMinutes, model, ...rest } = onThisClock(before, now);
  return {
    ...rest,
    ...(slaMinutes === options.sla ? {} : acceptedAt(options.accepted ?? now)),
    ...(options.sla === undefined ? {} : { slaMinutes: options.sla }),
    ...(options.model === undefined ? {} : { model: options.model }),
  };
}

/** What a body says of the moment from which its sla counts. */
export function acceptedAt(moment: Moment): Pick<TaskBody, "acceptedWallMs" | "seen"> {
  return { acceptedWallMs: moment.wallMs, seen: moment };
}

/**
 * The body of a task, read at `now`. If the wall clock was set since the body was last read, or the machine was suspended, the
 * time of acceptance moves with it, by a fraction of a millisecond as well: so the deadline stays where a process that ran all the
 * time would have it (docs/decisions/0019-clocks.md).
 */
export function onThisClock(body: TaskBody, now: Moment): TaskBody {
  return { ...body, seen: now, acceptedWallMs: body.acceptedWallMs + jumpMsSince(body.seen, now) };
}

/** How the run reckons from this call on. */
export function costTerms({ slaMinutes, volumeTokens }: TaskBody, rateCard: RateCard): CostTerms {
  const factors = new Map<string, number>();
  return {
    factorOf: (model) => {
      const known = factors.get(model) ?? priceFactor(model, slaMinutes, volumeTokens, rateCard);
      factors.set(model, known);
      return known;
    },
    prices: new PriceTable(),
  };
}
