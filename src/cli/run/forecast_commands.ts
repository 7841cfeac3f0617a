/**
 * Commands that say what a file would take, and send nothing: quote and plan.
 */

import { LANE_POLICIES } from "../../queue/lane_choice.ts";
import { NO_CONFIG } from "../setup/config_words.ts";
import { addForecastTableOptions } from "../tables/table_options.ts";
import { amount, laneNames, modelId, onTimeShare, slaList, slaMinutes } from "../values.ts";
import { LANES, NO_LEARN, STATE, UNSUPPORTED } from "./run_choices.ts";

type Read = (text: string, before?: never) => unknown;

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string, read?: Read): Commands;
  addOption(option: never): Commands;
  action(run: (argument: string, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** What commander does with options. */
interface Parsing {
  /** Shows the option with the text of an error. */
  checked<T>(read: (text: string, before?: T) => T): (text: string, before?: T) => T;
  /** An option whose values are known. */
  choice(words: readonly [string, string], choices: readonly string[]): unknown;
}

/** Adds them; `finish` ends the process with a code. */
export function addForecastCommands(
  root: Commands,
  { checked, choice }: Parsing,
  finish: (code: number) => void,
): void {
  const read = <T>(of: (text: string, before?: T) => T): Read => checked(of) as Read;
  const chosen = (words: readonly [string, string], choices: readonly string[]): never =>
    choice(words, choices) as never; // made by the one who takes it
  const withPrices = (command: Commands): Commands =>
    command
      .option("--config <file>", "configuration: providers, limits, prices")
      .option(...NO_CONFIG)
      .option("--prices <file>", "your own price sheet; its prices take precedence");
  const withLanes = (command: Commands): Commands =>
    command
      .addOption(chosen(UNSUPPORTED, ["drop", "refuse"]))
      .addOption(chosen(LANES.policy, LANE_POLICIES))
      .option(...LANES.minOnTime, read(onTimeShare))
      .option(...LANES.allow, read(laneNames))
      .option(...LANES.deny, read(laneNames))
      .option(...STATE)
      .option(...NO_LEARN);
  const quote = root
    .command("quote")
    .description("What a file would take: tokens, price for each sla, time under the limits. Sends nothing.")
    .argument("<input>", "JSONL file, .json array, a table with --prompt, or - for standard input")
    .option("--sla <minutes>", "one or more windows, comma separated (default: 60,1440)", read(slaList));
  withPrices(quote).option("--model <id>", "count every line for this model instead", read(modelId));
  withLanes(quote)
    .option("--json", "print the quote as one JSON object")
    .action(async (input, options) => finish(await (await import("./quote.ts")).quote(input, options)));
  const plan = root
    .command("plan")
    .description(
      "Which lanes a file would go to, when and why, and what that costs, for an sla. Sends nothing.",
    )
    .argument("<input>", "JSONL file, .json array, a table with --prompt, or - for standard input")
    .option(
      "--sla <minutes>",
      "the time for the whole file: 1 to 43200 minutes, or 90m, 24h, 7d; without it, all goes in realtime",
      read(slaMinutes),
    );
  withPrices(plan)
    .option("--max-cost <usd>", "plan only what this amount pays for", read(amount))
    .option("--model <id>", "plan every line for this model instead", read(modelId));
  withLanes(plan)
    .option("--explain", "also say why, and what all of it would be in each other lane")
    .option("--json", "print the plan as one JSON object")
    .action(async (input, options) => finish(await (await import("./plan.ts")).plan(input, options)));
  for (const command of [quote, plan])
    addForecastTableOptions(
      (flags, text, of) => void command.option(flags, text, of === undefined ? of : read(of)),
    );
}
