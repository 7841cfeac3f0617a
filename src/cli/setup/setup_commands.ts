/**
 * Commands that prepare the work: doctor, init, completion.
 */
import { NO_CONFIG } from "./config_words.ts";

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string, value?: string): Commands;
  option(flags: string, text: string, read: (text: string) => string): Commands;
  action(run: (words: string[], options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (word: string | undefined, options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (word: string) => Promise<void>): Commands;
}

/** Adds them; `model` reads the name of a model, `finish` ends the process with a code. */
export function addSetupCommands(
  root: Commands,
  model: (text: string) => string,
  finish: (code: number) => void,
): void {
  root
    .command("doctor")
    .description(
      "Check keys, providers, disk and clock: what a run from here would use, and whether it works. Costs nothing without --send.",
    )
    .argument("[providers...]", "only these (default: all that are configured or have a key)")
    .option("--send", "also send one request of one output token to each, and show what it cost")
    .option("--model <id>", "the model of --send (default: the cheapest that the provider lists)", model)
    .option("--config <file>", "configuration: providers, limits, prices")
    .option(...NO_CONFIG)
    .option("--data <dir>", "check the disk of this folder", ".")
    .option("--json", "print what was found as one JSON object")
    .action(async (names: string[], options: Record<string, unknown>) =>
      finish(await (await import("./doctor.ts")).doctor(names, options)),
    );
  root
    .command("init")
    .description("Write a configuration in which every line is a comment that says what it would do.")
    .argument("[file]", "what to write; it must not exist (default: perigee.config.yaml)")
    .action(async (file: string | undefined) => finish(await (await import("./init.ts")).init(file)));
  root
    .command("completion")
    .description("Print a script with which a shell completes commands, options and their values.")
    .argument("<shell>", "bash, zsh or fish")
    .action(async (shell: string) =>
      finish((await import("./completion.ts")).completion(shell, root as never)),
    );
}
