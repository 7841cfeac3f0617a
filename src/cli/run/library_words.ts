/**
 * Replaces the library's names of calls and options in errors by those of the command line.
 */
import { basename } from "node:path";
import { LINE_FOR_ROW } from "../../engine/files/byte_source.ts";
import { CALL_WITH_UPDATE } from "../../engine/files/checked_body.ts";
import { SAME_STREAM } from "../../engine/files/spool.ts";
import type { Summary } from "../../engine/items/progress.ts";
import { CALL_AGAIN } from "../../engine/journal/output.ts";
import { PILOT_DECLINED } from "../../engine/runs/run.ts";
import { DATA_DIR_OF_OUTPUT } from "../../engine/runs/run_open.ts";
import { PerigeeError } from "../../errors.ts";
import { FOLDER_IN_USE } from "../../store/folder/data_dir.ts";

/** What the library says, and what a command says instead; `file` is the file of the error. */
const WORDS: readonly (readonly [library: string, command: (file: string) => string])[] = [
  [
    LINE_FOR_ROW,
    () =>
      `add --prompt with a file that says what to ask each row, with {{column}} for its cells, or ${LINE_FOR_ROW}`,
  ],
  [CALL_WITH_UPDATE, () => "run the same command with --update"],
  [CALL_AGAIN, (file) => `run the same command again (or perigee repair ${file})`],
  [DATA_DIR_OF_OUTPUT, () => "name the --data folder it belongs to"],
  ["run: lanes.allow:", () => "--allow-lanes:"],
  ["run: lanes.deny:", () => "--deny-lanes:"],
  [SAME_STREAM, () => "pass the same input again, or use another --out for a new run"],
  [
    FOLDER_IN_USE,
    () =>
      "wait until that has ended, or use another --data; runs that share a --cap at the same time need one engine: perigee serve, or the library",
  ],
];

/** The stop reason of a run whose user declined to continue after the pilot. */
export const DECLINED = "not continued after the pilot";

/** The same summary, or a copy with the words of the command line. */
export function summaryInOptions(summary: Summary): Summary {
  return summary.reason === PILOT_DECLINED ? { ...summary, reason: DECLINED } : summary;
}

/** The same error, or a copy with the words of the command line. */
export function inOptions(error: unknown): unknown {
  if (!(error instanceof PerigeeError)) return error;
  const { code, message, details } = error;
  const file = typeof details["path"] === "string" ? basename(details["path"]) : "OUT";
  const text = WORDS.reduce(
    (said, [library, command]) => said.replace(library, () => command(file)),
    message,
  );
  return text === message ? error : new PerigeeError(code, text, { details, cause: error });
}
