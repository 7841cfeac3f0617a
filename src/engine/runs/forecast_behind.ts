/**
 * The forecast for new work with a window, in one place for those who accept it and those who quote it.
 */
import { overAtMs } from "../../work/sla.ts";
import type { EngineCore } from "../core.ts";
import type { Forecast } from "../lanes/forecasts.ts";
import { batchedByMs } from "../plans/batched_work.ts";
import type { CountedWork } from "../plans/counted_work.ts";

/** Work of one project and model. */
export interface WindowedWork extends CountedWork {
  readonly project: string;
  /** From now to its deadline. */
  readonly windowMs: number;
}

/**
 * What realtime cannot do by its deadline is feasible, at risk, if batches are expected to (`batchedByMs`): they have no such limits.
 *
 * After what waits in its lane, and what its project has accepted that no run has read and whose deadline is not later: that is
 * taken for more of the same work, and so are `before` items of its own task. Times are monotonic.
 */
export function forecastBehind(
  core: Pick<EngineCore, "config" | "storage" | "sending">,
  { project, model, endpoints, items, requests, inputTokens, outputTokens, windowMs }: WindowedWork,
  before = 0,
): Forecast {
  const { sending } = core;
  const { clock } = core.storage;
  const deadlineMs = clock.nowMs() + windowMs;
  const unread = before + sending.backlog.unreadItems(project, overAtMs(clock, clock.wallMs() + windowMs));
  const scale = 1 + unread / items;
  const load = { items: items * scale, inputTokens: inputTokens * scale };
  const forecast = sending.lanes.forecasts.forecast({
    ...{ model, project, ...load, deadlineMs },
    requests: requests * scale,
  });
  if (forecast.sla !== "infeasible") return forecast;
  const coming = { model, endpoints, ...load, outputTokens: outputTokens * scale };
  const batchedMs = batchedByMs(core, project, coming);
  if (batchedMs >= forecast.earliestDeadlineMs) return forecast;
  return batchedMs <= deadlineMs
    ? { sla: "at_risk", doneMs: batchedMs }
    : { ...forecast, earliestDeadlineMs: batchedMs };
}
