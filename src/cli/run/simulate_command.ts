/**
 * The options of `perigee simulate`: those of `run` that change what work takes, and what is assumed of providers.
 */

import { NO_CONFIG } from "../setup/config_words.ts";
import { addForecastTableOptions } from "../tables/table_options.ts";
import {
  amount,
  count,
  laneNames,
  modelId,
  onTimeShare,
  secondsList,
  seedNumber,
  slaMinutes,
} from "../values.ts";
import { LANES, NO_LEARN, STATE, UNSUPPORTED } from "./run_choices.ts";

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string): Commands;
  option<T>(flags: string, text: string, read: (text: string, before?: T) => T): Commands;
  action(run: (argument: string, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** Reads a value so that commander names the option in an error. */
type Checked = <T>(read: (text: string, before?: T) => T) => (text: string, before?: T) => T;

/** Adds it; `finish` ends the process with a code. */
export function addSimulateCommand(root: Commands, checked: Checked, finish: (code: number) => void): void {
  const command = root
    .command("simulate")
    .description(
      "What a run would take, by running it in virtual time: time, cost, lanes, deadline. Sends nothing.",
    )
    .argument("<input>", "JSONL file, .json array, a table with --prompt, or - for standard input")
    .option(
      "--sla <minutes>",
      "answer within this many minutes (1 to 43200, or 90m, 24h, 7d); without it, at once",
      checked(slaMinutes),
    )
    .option("--config <file>", "configuration: providers, limits, prices, lanes")
    .option(...NO_CONFIG)
    .option("--prices <file>", "your own price sheet; its prices take precedence")
    .option("--max-cost <usd>", "stop sending where a run with this cap would", checked(amount))
    .option("--model <id>", "simulate every line on this model instead", checked(modelId))
    .option(...LANES.policy)
    .option(...LANES.minOnTime, checked(onTimeShare))
    .option(...LANES.allow, checked(laneNames))
    .option(...LANES.deny, checked(laneNames))
    .option(
      "--latency <seconds>",
      "what answers in realtime take: the median, or p50,p90,p99 (default: as learnt, else 1 s and 50 tokens a second)",
      checked(secondsList),
    )
    .option("--output-tokens <tokens>", "of each answer (default: as learnt, else 512)", checked(count))
    .option(
      "--seed <number>",
      "of the first simulation (default: 1), and of --sample (default: 0)",
      checked(seedNumber),
    )
    .option(
      "--seeds <count>",
      "how many simulations (default: 5, fewer for more than 300,000 requests)",
      checked(count),
    )
    .option(...UNSUPPORTED)
    .option(...STATE)
    .option(...NO_LEARN)
    .option("--json", "print the result as one JSON object")
    .action(async (input: string, options: Record<string, unknown>) =>
      finish(await (await import("./simulate.ts")).simulate(input, options)),
    );
  addForecastTableOptions((flags, text, read) => {
    if (flags.startsWith("--seed ")) return; // it has its own
    if (read === undefined) command.option(flags, text);
    else command.option(flags, text, checked(read));
  });
}
