/**
 * What observers receive for each ended posted item, once: what it took since it was opened, or opened again. Earlier use was reported
 * with its earlier end.
 */
import type { WorkLog } from "../../log/work_log.ts";
import { NO_MONEY } from "../../price/money.ts";
import type { EngineObserver, SettledReport } from "../journal/observer.ts";

/** Tokens and money of an item. */
export type ReportedTaken = Omit<SettledReport, "project" | "status" | "code" | "model" | "isCached">;

interface ReportedEnd extends Pick<SettledReport, "status" | "code" | "isCached"> {
  readonly taken: ReportedTaken;
  readonly before: ReportedTaken | undefined;
}

/** An item that has not ended, and what its attempts took. */
interface OpenItem extends Pick<ReportedEnd, "taken" | "before"> {
  readonly item: number;
}

const NOTHING_TAKEN: ReportedTaken = { inputTokens: 0, outputTokens: 0, ...NO_MONEY };

export function reportEnd(
  observer: EngineObserver | undefined,
  project: string,
  { status, code, taken, before = NOTHING_TAKEN, isCached }: ReportedEnd,
): void {
  observer?.settled({
    ...(isCached === true ? { isCached } : {}),
    project,
    status,
    code,
    inputTokens: taken.inputTokens - before.inputTokens,
    outputTokens: taken.outputTokens - before.outputTokens,
    listUsd: taken.listUsd - before.listUsd,
    usd: taken.usd - before.usd,
    billedUsd: taken.billedUsd - before.billedUsd,
    ambiguousUsd: taken.ambiguousUsd - before.ambiguousUsd,
  });
}

/** Reports the items of a task that ended with its rest: those for which `isRest` is true. */
export type RestReport = (isRest: (item: number) => boolean) => void;

/** Reports the open items of a task as they are just before its rest ends. */
export function restReport(
  observer: EngineObserver | undefined,
  log: WorkLog,
  number: number,
  status: "expired" | "cancelled",
): RestReport {
  const task = log.task(number);
  if (observer === undefined || task === undefined) return () => undefined;
  const project = log.text(task.project) ?? "";
  const tried = log.triedItems(number);
  const open: OpenItem[] = [];
  for (let item = 0; item < task.items; item += 1) {
    if (!log.isOpen(number, item)) continue;
    const { ended = NOTHING_TAKEN, before } = tried.get(item) ?? {};
    open.push({ item, taken: ended, before });
  }
  return (isRest) => {
    for (const { item, ...taken } of open)
      if (isRest(item)) reportEnd(observer, project, { status, code: status, ...taken });
  };
}
