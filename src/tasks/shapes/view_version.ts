/**
 * Computes the version of a task's view: it differs whenever anything shown differs, but not with every new estimate.
 */
import { createHash } from "node:crypto";
import type { Hold } from "../../engine/items/holds.ts";
import type { TaskView } from "./task_view.ts";

/** An expected end is kept while it is wrong by no more than the larger of these: a time, a share of the time left. */
const STEADY_MS = 2_000;
const STEADY_SHARE = 0.05;

/** When the open part of a task is expected to end. */
export interface EndForecast {
  readonly expectedEndWallMs: number | undefined;
  readonly isSlaAtRisk: boolean;
}

/** Returns `before` while it is accurate enough: an estimate that changes with every read would change every body for nothing. */
export function steady(found: EndForecast, before: TaskView | undefined, wallMs: number): EndForecast {
  const { expectedEndWallMs: shownMs, isSlaAtRisk } = before ?? {};
  const { expectedEndWallMs: foundMs } = found;
  if (shownMs === undefined || foundMs === undefined || isSlaAtRisk !== found.isSlaAtRisk) return found;
  if (shownMs < wallMs) return found;
  const toleranceMs = Math.max(STEADY_MS, (shownMs - wallMs) * STEADY_SHARE);
  return Math.abs(foundMs - shownMs) <= toleranceMs ? { ...found, expectedEndWallMs: shownMs } : found;
}

/** The part of a version for an basis. */
export function markOf(basis: EndForecast | undefined): string {
  const { expectedEndWallMs, isSlaAtRisk } = basis ?? {};
  return `.${expectedEndWallMs?.toString(36) ?? ""}${isSlaAtRisk === true ? "_" : ""}`;
}

/** The part of a version for holds. */
export function heldMark(held: readonly Hold[]): string {
  if (held.length === 0) return "";
  return `.h${createHash("sha256").update(JSON.stringify(held)).digest("base64url").slice(0, 8)}`;
}

/** The version of a final task: constant unless the task is retried. */
export function finalVersion(id: string, retries: number): string {
  return `f${id.slice(-8)}${retries === 0 ? "" : `-${retries}`}`;
}
