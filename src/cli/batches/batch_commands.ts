/**
 * Commands on batches at providers: batches list, cancel, adopt.
 */

import { NO_CONFIG } from "../setup/config_words.ts";

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string): Commands;
  action(run: (options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (id: string | undefined, options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (id: string, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** Adds them; `finish` ends the process with a code. */
export function addBatchCommands(root: Commands, finish: (code: number) => void): void {
  const batches = root
    .command("batches")
    .description("Open batches at providers: list, cancel, adopt. A run finds its own by itself.");
  const load = (): Promise<typeof import("./batches.ts")> => import("./batches.ts");
  const placed = (command: Commands): Commands =>
    command
      .option("--data <dir>", "the data folder (default: OUT.perigee/ with --out, else ./perigee-data)")
      .option("-o, --out <file>", "only those of the run with this output")
      .option("--json", "print them as one JSON object");
  const asking = (command: Commands): Commands =>
    placed(command)
      .option("--config <file>", "configuration: providers, keys")
      .option(...NO_CONFIG);
  placed(
    batches.command("list").description("The batches that have not been collected. Works while a run does."),
  ).action(async (options: Record<string, unknown>) => finish(await (await load()).listBatches(options)));
  asking(
    batches
      .command("cancel")
      .description(
        "Ask the provider to cancel a batch. What it has finished is kept; its run sends the rest another way.",
      )
      .argument("[id]", "as batches list shows it"),
  )
    .option("--all", "all that are with providers")
    .action(async (id: string | undefined, options: Record<string, unknown>) =>
      finish(await (await load()).cancelBatches(id, options)),
    );
  asking(
    batches
      .command("adopt")
      .description("Say which batch at the provider is that of a submission whose answer was lost.")
      .argument("<id>", "the provider's"),
  ).action(async (id: string, options: Record<string, unknown>) =>
    finish(await (await load()).adopt(id, options)),
  );
}
