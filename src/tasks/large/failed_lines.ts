/**
 * Which lines of a task ended in an error and will run again, according to their present answers.
 *
 * Lines that could not be read make no object, and their task cannot send a better text: they are left out.
 */
import type { EngineCore } from "../../engine/core.ts";
import { brokenAnswer } from "../../engine/journal/answer_check.ts";
import type { RetryFailed } from "../../engine/reopening/reopen.ts";
import { isWanted } from "../../engine/reopening/wanted_errors.ts";
import { LineSet } from "../../work/line_set.ts";
import type { Failure } from "../../work/outcome.ts";
import { readPlaces } from "../lots/answer_file.ts";
import type { PartAgain } from "../lots/task_record.ts";
import type { Layer } from "./part_layers.ts";
import { cancelledUnsent } from "./task_objects.ts";
import { placesOf } from "./task_output.ts";

/** Lines of one part, by their numbers in it, and their earlier ends. */
export interface FailedLines {
  readonly lines: LineSet;
  readonly replaced: PartAgain["replaced"];
}

/** The lines of a part's layers with the wanted errors; `isCancelled`: unsent lines of a layer will not be sent. */
export async function failedLines(
  { storage: { disk }, config }: Pick<EngineCore, "storage" | "config">,
  layers: readonly Layer[],
  retry: RetryFailed,
  isCancelled: (layer: Layer) => boolean,
): Promise<FailedLines> {
  const lines = new LineSet();
  const replaced = { completed: 0, failed: 0, expired: 0, cancelled: 0 };
  // Answers that are damaged were given: at most once, they run again only if their code is named.
  const isDamageWanted = retry === true ? !config.isAtMostOnce : retry.includes("output_damaged");
  const add = (number: number, status: keyof typeof replaced): void => {
    lines.add(number);
    replaced[status] += 1;
  };
  for (const layer of layers) {
    const { lot, part } = layer;
    for (const places of placesOf(layer, isDamageWanted ? "all" : "errors"))
      for await (const { place, bytes } of readPlaces(disk, lot.out ?? "", places)) {
        const status = lot.index.statusOf(place.line);
        if (status === undefined || (status === "completed" && bytes !== undefined)) continue;
        const error = bytes === undefined ? brokenAnswer(lot.out ?? "", place) : errorIn(bytes);
        if (!isWanted(error, retry, config.isAtMostOnce)) continue;
        add(place.line - part.firstLine + 1, status);
      }
    if (!isCancelled(layer) || !isWanted(cancelledUnsent(), retry, config.isAtMostOnce)) continue;
    for (let number = 1; number <= part.lines; number += 1) {
      const line = part.firstLine + number - 1;
      if (!layer.stands(number) || lot.index.statusOf(line) !== undefined) continue;
      if (lot.statusOf(line, true) === "cancelled") add(number, "cancelled");
    }
  }
  return { lines, replaced };
}

function errorIn(bytes: Uint8Array): Failure {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  return (JSON.parse(text) as { readonly error: Failure }).error; // written by this service
}
