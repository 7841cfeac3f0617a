/**
 * The forecast for new work with a window, in one place for those who accept it and those who quote it.
 */
import { overAtMs } from "../../work/sla.ts";
import type { EngineCore } from "../core.ts";
import type { Forecast } from "../lanes/forecasts.ts";

/** Work of one project and model. */
export interface WindowedWork {
  readonly project: string;
  /** `<provider>:<name>`. */
  readonly model: string;
  readonly items: number;
  readonly inputTokens: number;
  /** From now to its deadline. */
  readonly windowMs: number;
}

/**
 * After what waits in its lane, and what its project has accepted that no run has read and whose deadline is not later: that is
 * taken for more of the same work, and so are `before` items of its own task. Times are monotonic.
 */
export function forecastBehind(
  { storage, sending }: Pick<EngineCore, "storage" | "sending">,
  { project, model, items, inputTokens, windowMs }: WindowedWork,
  before = 0,
): Forecast {
  const { clock } = storage;
  const deadlineMs = clock.nowMs() + windowMs;
  const unread = before + sending.backlog.unreadItems(project, overAtMs(clock, clock.wallMs() + windowMs));
  const scale = 1 + unread / items;
  const load = { items: items * scale, inputTokens: inputTokens * scale };
  return sending.lanes.forecasts.forecast({ model, project, ...load, deadlineMs });
}
