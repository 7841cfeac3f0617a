/**
 * Quotes: what a source would take, counted exactly and priced, without sending anything.
 */
import type { DiskFile } from "../../disk.ts";
import type { PlannedQuote } from "../../price/planned_quote.ts";
import { type Quote, type QuoteInput, quote } from "../../price/quote.ts";
import type { TimeNeeded } from "../../price/quote_requests.ts";
import { finishAt, lastFinish } from "../../price/quote_sla.ts";
import type { WorkPlan } from "../../queue/plan/plan.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import type { LineSet } from "../../work/line_set.ts";
import { parseSlaMinutes, SLA_MINUTES_MAX } from "../../work/sla.ts";
import { unlessAborted } from "../abort.ts";
import { type LaneOptions, type LaneRules, laneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import type { Source } from "../files/input.ts";
import { ASSUMED_SPEED, type ExpectedUsage } from "../learnt/expected_usage.ts";
import { withGuarded } from "../listeners.ts";
import { batchedByMs, goesWithBatches } from "../plans/batched_work.ts";
import { CostFloorBook, floorOfPlan, WITHOUT_BATCHES } from "../plans/cost_floors.ts";
import { type Counted, countLines, countSource } from "../plans/counted_input.ts";
import { lanePlanOf } from "../plans/lane_plan.ts";
import { basisOf } from "../plans/plan_source.ts";
import { planUsage } from "../plans/planned_work.ts";
import { priceChanges } from "../plans/price_changes.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";
import { forecastBehind } from "./forecast_behind.ts";
import { type MissingListener, WarningFeed, type WarningListener } from "./warning_feed.ts";

const MINUTE_MS = 60_000;
const NEVER = Number.POSITIVE_INFINITY;
/** A guess at a window is longer than the one before by so much at least: fewer than 200 for 30 days. */
const GUESS_STEP = 1.05;

/** Options of `engine.quote`. */
export interface QuoteOptions extends LaneOptions, SchemaOptions {
  /** Windows to quote, in minutes. Default: 60 and 1,440. */
  readonly slas?: readonly number[];
  readonly model?: string;
  /**
   * The project of the work, as a service sells it: it waits for what waits in this engine, and its price factors cover the expected cost
   * and the project's margin. Default: nothing waits, and factors are those of the rate card.
   */
  readonly project?: string;
  /** With `project`: it would be posted as one task of few items, which batches take only where enough of them have time for one. */
  readonly isPosted?: boolean;
  /** Bytes of the whole work, for its volume. Default: the file's size; a stream has no volume. */
  readonly sizeBytes?: number;
  /** More different models than this are `too_many`. Default: as many as there are. */
  readonly modelsMax?: number;
  /** Called once for each setting that a run would leave out for a model, with the first line that has it. */
  readonly onWarning?: WarningListener;
  /** Called once for each provider without a key or a configuration, whose lines a run would hold, with the first of them. */
  readonly onMissing?: MissingListener;
  /** Aborting stops the reading and rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Lines that would fail are counted by themselves. Throws as `run` does for an input that cannot be read. */
export async function quoteSource(
  core: EngineCore,
  source: Source,
  options: QuoteOptions,
): Promise<PlannedQuote> {
  const slasMinutes = (options.slas ?? [60, 1_440]).map(
    (sla, index) => parseSlaMinutes(sla, `sla ${index + 1}`) ?? 0,
  );
  const { signal, project, isPosted = false, lanes, policy, minOnTime } = options;
  signal?.throwIfAborted();
  const feed = WarningFeed.of(withGuarded(options, ["onWarning", "onMissing"]), core.config.keysMissing);
  const onBlock = feed === undefined ? undefined : (block: MeasuredBlock): void => feed.see(block);
  const counted = await unlessAborted(countSource(core, source, { ...options, onBlock }), signal);
  const behind =
    project === undefined
      ? {}
      : {
          behindSeconds: behindSeconds(core, project, counted),
          floorOf: floorOf(core, { project, isPosted }, counted),
        };
  const rulesOf = (slaMinutes: number | undefined): LaneRules =>
    laneRules(core.config.lanes, {
      ...(project === undefined ? {} : { project }),
      ...(lanes === undefined ? {} : { lanes }),
      ...(policy === undefined ? {} : { policy }),
      ...(minOnTime === undefined ? {} : { minOnTime }),
      ...(isPosted && staysInWorkLog(core, project ?? "", counted, slaMinutes)
        ? { lanes: WITHOUT_BATCHES }
        : {}),
    });
  return quoteOf(core, counted, {
    slasMinutes,
    ...behind,
    ...(project === undefined ? {} : { project }),
    rulesOf,
    basis: basisOf(counted.usage),
  });
}

/** What is left of a run. */
export interface RestOptions extends Pick<QuoteOptions, "model" | "signal"> {
  /** The run's; absent without one. */
  readonly sla?: number;
  /** Items that the run has answered. */
  readonly answered: number;
  readonly rules: LaneRules;
  readonly volumeTokens: number;
  /** What providers are asked for where items say nothing themselves, as JSON. */
  readonly schema: string | undefined;
  /** Answers for an item at most, if they are checked. */
  readonly answersMax: number;
  /** Lines that are not counted. */
  readonly done: Pick<LineSet, "slice" | "has">;
}

/** The quote of lines that are not done yet; reads the input to its end. */
export async function quoteRest(
  core: EngineCore,
  file: Pick<DiskFile, "read">,
  { sla, answered, rules, volumeTokens, ...options }: RestOptions,
): Promise<PlannedQuote> {
  const counted = await countLines(core, file, { volumeTokens, ...options });
  const own = sla === undefined ? {} : { ownSlaMinutes: sla };
  const slasMinutes = sla === undefined ? [] : [sla];
  return quoteOf(core, counted, {
    ...{ slasMinutes, ...own, rulesOf: () => rules, basis: pilotBasis(counted, answered) },
  });
}

function quoteOf(
  core: EngineCore,
  { usage, rejectedLines, firstFault, volumeTokens }: Counted,
  {
    rulesOf,
    project = "",
    ...asked
  }: Pick<QuoteInput, "slasMinutes" | "behindSeconds" | "floorOf" | "ownSlaMinutes" | "basis"> & {
    rulesOf: (slaMinutes: number | undefined) => LaneRules;
    project?: string;
  },
): PlannedQuote {
  const plans = new Map(
    asked.slasMinutes.map((slaMinutes) => [
      slaMinutes,
      planUsage(core, usage, { slaMinutes, rules: rulesOf(slaMinutes) }),
    ]),
  );
  const wallMs = core.storage.clock.wallMs();
  const nowMs = core.storage.clock.nowMs();
  const batched = new Map(
    usage.works().map((work) => [work.model, batchedByMs(core, project, work) - nowMs]),
  );
  const found = quote({
    totals: usage.totals(),
    rejectedLines,
    volumeTokens,
    wallMs,
    card: core.config.rateCard,
    price: (model) => core.figures.prices.price(model, wallMs),
    times: timesOf(core, usage),
    assumptions: ASSUMED_SPEED,
    planned: (model, slaMinutes) => lanePlanOf(plans.get(slaMinutes), model),
    batchedSeconds: (model, slaMinutes) =>
      rulesOf(slaMinutes).lanes.allows("batch", model) ? (batched.get(model) ?? NEVER) / 1_000 : NEVER,
    ...asked,
  });
  const quoted = firstFault === undefined ? found : { ...found, first_fault: firstFault };
  const { ownSlaMinutes } = asked;
  const own = ownSlaMinutes === undefined ? undefined : plans.get(ownSlaMinutes);
  return planned(
    core,
    quoted,
    own ?? planUsage(core, usage, { slaMinutes: undefined, rules: rulesOf(undefined) }),
  );
}

/** With what lies ahead, and bands that follow earlier quotes. */
function planned(core: EngineCore, quoted: Quote, plan: WorkPlan): PlannedQuote {
  const { prices, quotes } = core.figures;
  const finish = quotes.calibratedFinish(
    lastFinish(quoted.models.map(({ model, time }) => finishAt(time.seconds, lanePlanOf(plan, model)))),
  );
  const fromWallMs = Date.parse(quoted.priced_at);
  const untilWallMs = fromWallMs + 1_000 * (finish.late_seconds ?? quoted.time.seconds);
  const models = quoted.models.map(({ model }) => model);
  return {
    ...quotes.calibrated(quoted),
    finish,
    price_changes: priceChanges(prices, models, { fromWallMs, untilWallMs }),
    calibrated_by: quoted.basis === "ceiling" ? 0 : quotes.cost.count,
  };
}

/** The floor of the project's terms: of what any work of the model costs, and of what this one does. */
function floorOf(
  core: EngineCore,
  seller: { readonly project: string; readonly isPosted: boolean },
  { usage }: Pick<Counted, "usage">,
): NonNullable<QuoteInput["floorOf"]> {
  const book = new CostFloorBook(core);
  const terms = core.config.saleTermsOf(seller.project);
  const items = new Map(usage.works().map((work) => [work.model, work.items]));
  return (model, slaMinutes, costShare) =>
    Math.max(
      book.floorOf({
        ...{ ...seller, model, slaMinutes, items: items.get(model) ?? 0 },
        isPosted: seller.isPosted && staysInWorkLog(core, seller.project, { usage }, slaMinutes),
      }),
      floorOfPlan(costShare, terms),
    );
}

/** Whether posted work of a window makes no batch of its own, and is sent from the work log. */
function staysInWorkLog(
  core: EngineCore,
  project: string,
  { usage }: Pick<Counted, "usage">,
  slaMinutes = 0,
): boolean {
  const works = usage.works().map((work) => ({ ...work, slaMinutes }));
  return slaMinutes === 0 || !goesWithBatches(core, project, works);
}

/** Whatever else was learnt: the run's own answers are what the rest is like. */
function pilotBasis({ usage }: Counted, answered: number): string {
  const basis = basisOf(usage);
  return basis === "ceiling" ? basis : `pilot n=${answered}`;
}

/**
 * As admission sees it (tasks/usage/admission.ts): the earliest window that it would accept, or the time in the shortest one.
 * The longer a window, the more that is accepted and not read is before it: so each guess, in whole minutes as an sla is,
 * uses the result of the one before, until it holds.
 */
function behindSeconds(
  core: EngineCore,
  project: string,
  { usage }: Pick<Counted, "usage">,
): NonNullable<QuoteInput["behindSeconds"]> {
  const expected = new Map(usage.works().map((work) => [work.model, work]));
  return (model, items, inputTokens) => {
    const work = expected.get(model) ?? { outputTokens: 0, endpoints: [], requests: items };
    const nowMs = core.storage.clock.nowMs();
    let foundMs = 0; // from now
    for (let minutes = 1; minutes <= SLA_MINUTES_MAX; ) {
      const windowMs = minutes * MINUTE_MS;
      const forecast = forecastBehind(core, {
        ...{ project, ...work, model, items, inputTokens, windowMs },
      });
      if (forecast.sla !== "infeasible") {
        const aloneMs = Math.max(0, forecast.doneMs - nowMs);
        return (minutes === 1 ? aloneMs : Math.max(foundMs, windowMs - MINUTE_MS + 1)) / 1_000;
      }
      foundMs = forecast.earliestDeadlineMs - nowMs;
      minutes = Math.max(Math.ceil(minutes * GUESS_STEP), Math.ceil(foundMs / MINUTE_MS));
    }
    return Math.max(foundMs, SLA_MINUTES_MAX * MINUTE_MS + 1) / 1_000;
  };
}

function timesOf(core: EngineCore, usage: ExpectedUsage): Map<string, TimeNeeded> {
  const works = usage.works();
  const times = core.sending.lanes.forecasts.workTimes(works);
  return new Map(
    works.map(({ model, isMeasured }) => {
      const { ms, boundBy } = times.get(model) ?? { ms: 0, boundBy: "nothing" as const };
      return [model, { seconds: ms / 1_000, boundBy, isMeasured }];
    }),
  );
}
