/**
 * What finished runs are called again for: to run failed lines again, or with an input that has changed.
 */
import type { FailureCode } from "../../src/errors.ts";
import type { Feature } from "./features.ts";
import {
  drawLine,
  type LinePlace,
  pick,
  type Random,
  type SimulatedLine,
  type SimulatedRun,
} from "./workload.ts";

const CHANGED_ID = 5_000;

/** What a finished run is called again for. */
export type Again =
  | { readonly kind: "retry"; readonly codes: readonly FailureCode[] | undefined }
  | { readonly kind: "update"; readonly lines: readonly SimulatedLine[]; readonly isPruned: boolean };

/** What a finished run is called again for, in an order of its own. */
export function drawAgain(
  lines: readonly SimulatedLine[],
  place: Omit<LinePlace, "line" | "id"> & { readonly isStream: boolean },
  random: Random,
): readonly Again[] {
  const { features, run, isStream } = place;
  const isDrawn = (feature: Feature): boolean => features.has(feature) && (run === 0 || random() < 0.7);
  const again: Again[] = [];
  const isCut = isStream && features.has("deadline"); // a stream that its sla has cut was never accepted whole
  if (isDrawn("retry") && !isCut) {
    const codes = pick(random, [
      undefined,
      undefined,
      ["filtered", "invalid_request", "expired", "ambiguous"] as const,
    ]);
    again.push({ kind: "retry", codes });
  }
  if (features.has("update") && !isStream) {
    const update = drawUpdate(lines, place, random);
    if (random() < 0.5) again.push(update);
    else again.unshift(update);
  }
  return again;
}

/** Some lines have changed, some have come at the end, and there some may have been left out. */
function drawUpdate(
  lines: readonly SimulatedLine[],
  place: Omit<LinePlace, "line" | "id">,
  random: Random,
): Again {
  const keptCount = Math.max(1, lines.length - Math.floor(random() * 5));
  const drawn = (line: number): SimulatedLine =>
    drawLine({ ...place, line, id: place.run * 10_000 + CHANGED_ID + line }, random);
  const kept = lines.slice(0, keptCount).map((line) => (random() < 0.15 ? drawn(line.line) : line));
  const added = Array.from({ length: Math.floor(random() * 8) }, (_, index) => drawn(keptCount + index + 1));
  return { kind: "update", lines: [...kept, ...added], isPruned: random() < 0.5 };
}

/** Only lines of changed inputs. */
export function newLinesOf({ again, lines }: SimulatedRun): readonly SimulatedLine[] {
  return again.flatMap((each) =>
    each.kind === "update" ? each.lines.filter((line) => !lines.includes(line)) : [],
  );
}
