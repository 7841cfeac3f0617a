/**
 * What makes the version of a task's view: it differs whenever anything shown differs, and estimates do not make it differ with
 * every look.
 */
import { createHash } from "node:crypto";
import type { Hold } from "../../engine/items/holds.ts";
import type { TaskView } from "./task_view.ts";

/** An expected end holds while it is wrong by no more than the larger of these: a time, a share of the time left. */
const STEADY_MS = 2_000;
const STEADY_SHARE = 0.05;

/** When what is open of a task is expected to end. */
export interface Outlook {
  readonly expectedEndWallMs: number | undefined;
  readonly isSlaAtRisk: boolean;
}

/** As `before` while that still holds: an estimate that moves with every look tells no more, and makes every body another. */
export function steady(found: Outlook, before: TaskView | undefined, wallMs: number): Outlook {
  const { expectedEndWallMs: shownMs, isSlaAtRisk } = before ?? {};
  const { expectedEndWallMs: foundMs } = found;
  if (shownMs === undefined || foundMs === undefined || isSlaAtRisk !== found.isSlaAtRisk) return found;
  if (shownMs < wallMs) return found;
  const toleranceMs = Math.max(STEADY_MS, (shownMs - wallMs) * STEADY_SHARE);
  return Math.abs(foundMs - shownMs) <= toleranceMs ? { ...found, expectedEndWallMs: shownMs } : found;
}

/** What a version says of an outlook. */
export function markOf(outlook: Outlook | undefined): string {
  const { expectedEndWallMs, isSlaAtRisk } = outlook ?? {};
  return `.${expectedEndWallMs?.toString(36) ?? ""}${isSlaAtRisk === true ? "_" : ""}`;
}

/** What a version says of what holds items. */
export function heldMark(held: readonly Hold[]): string {
  if (held.length === 0) return "";
  return `.h${createHash("sha256").update(JSON.stringify(held)).digest("base64url").slice(0, 8)}`;
}

/** Of a task that is final: the same for all time, unless it is retried. */
export function finalVersion(id: string, retries: number): string {
  return `f${id.slice(-8)}${retries === 0 ? "" : `-${retries}`}`;
}
