/**
 * `perigee run --dry-run`: checks a table, its prompt and all requests, prints the first requests, and sends nothing.
 */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { PerigeeError } from "../../errors.ts";
import { count } from "../numbers.ts";
import type { ConfigArguments } from "../prices.ts";
import { withRequests } from "../tables/requests_file.ts";
import type { TableArguments } from "../tables/table_arguments.ts";
import { type LaneArguments, laneOptions } from "./lane_options.ts";
import { faultText, missingText, quoteTable } from "./quote.ts";
import type { StateArguments } from "./state_folder.ts";
import { warningText } from "./summary.ts";
import { withEngine } from "./unsent.ts";

/** Requests that are printed. */
const SHOWN_REQUESTS = 3;
/** As for any input that has to be corrected first. */
const EXIT_FAULTS = 2;

interface DryArguments extends StateArguments, ConfigArguments, LaneArguments, TableArguments {
  readonly sla?: number;
  readonly schemaTries?: number;
}

/** Returns the exit code; throws as a run over the table would before it sends anything. */
export function dryRun(input: string, given: DryArguments): Promise<number> {
  return withRequests(input, given, async (path, asked) => {
    const lines = await firstLines(path, given.key !== undefined);
    process.stdout.write(lines.map((line) => `${line}\n`).join(""));
    const found = await withEngine(path, given, (engine) =>
      engine.quote(path, {
        ...laneOptions(given),
        ...(given.schemaTries === undefined ? {} : { schemaTries: given.schemaTries }),
        slas: given.sla === undefined ? [] : [given.sla],
        ...(given.model === undefined ? {} : { model: given.model }),
        onWarning: (warning) => process.stderr.write(`${warningText(warning, "row")}\n`),
        onMissing: ({ reason, line, message }) => {
          if (reason === "key_missing") process.stderr.write(missingText("row", line, message)); // the other is a fault of the row
        },
      }),
    );
    const columns = [...(asked?.table.columns ?? []), ...(asked?.added.columns ?? [])].map(
      ({ name }) => name,
    );
    process.stderr.write(
      `${quoteTable(found)}columns of the output: ${columns.join(", ")}\ndry run: ${count(found.items)} requests were checked, and nothing was sent\n`,
    );
    if (found.first_fault === undefined) return 0;
    process.stderr.write(faultText(input, given, { ...found, verb: "quoted" }, found.first_fault));
    return EXIT_FAULTS;
  });
}

/** The first requests. Keys of a column are all read: two rows of one key are refused. */
async function firstLines(path: string, hasKeys: boolean): Promise<string[]> {
  const shown: string[] = [];
  const rowsOf = new Map<string, number>();
  let row = 0;
  for await (const line of createInterface({
    input: createReadStream(path),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    row += 1;
    if (shown.length < SHOWN_REQUESTS) shown.push(line);
    else if (!hasKeys) break;
    if (!hasKeys) continue;
    const { key } = JSON.parse(line) as { key: string }; // written by this process
    const first = rowsOf.get(key);
    if (first !== undefined)
      throw new PerigeeError(
        "duplicate_key",
        `rows ${first} and ${row} of those that are asked have the same key ${JSON.stringify(key)}`,
      );
    rowsOf.set(key, row);
  }
  return shown;
}
