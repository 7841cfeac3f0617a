/**
 * Commands that read a run: status, errors, trace, receipts.
 */

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string): Commands;
  action(run: (argument: string, options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (first: string, second: string, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** Adds them; `finish` ends the process with a code. */
export function addStatusCommands(root: Commands, finish: (code: number) => void): void {
  const add = (name: string, description: string): Commands =>
    root
      .command(name)
      .description(description)
      .argument("<out>", "the output of the run")
      .option("--data <dir>", "where the run keeps its state (default: OUT.perigee/)")
      .option("--json", "print it as one JSON object");
  add("status", "The state of the run of an output. Works while the run does.").action(
    async (out: string, options: Record<string, unknown>) =>
      finish(await (await import("./status.ts")).status(out, options)),
  );
  add(
    "errors",
    "The errors of a run by code: first line, message, what to do. Works while the run does.",
  ).action(async (out: string, options: Record<string, unknown>) =>
    finish(await (await import("./status.ts")).errors(out, options)),
  );
  root
    .command("receipts")
    .description("Receipts of a run, as perigee run --receipts writes them.")
    .command("verify")
    .description("Check that no receipt was changed, removed, added or moved since the run wrote them.")
    .argument("<file>", "the file of the receipts")
    .option("--json", "print what was found as one JSON object")
    .action(async (file: string, options: Record<string, unknown>) =>
      finish(await (await import("../usage/receipts.ts")).verifyReceipts(file, options)),
    );
  root
    .command("trace")
    .description("The life of one item of a run, step by step. Works while the run does.")
    .argument("<out>", "the output of the run")
    .argument("<key>", "the key of the item")
    .option("--data <dir>", "where the run keeps its state (default: OUT.perigee/)")
    .option("--json", "print it as one JSON object")
    .action(async (out: string, key: string, options: Record<string, unknown>) =>
      finish(await (await import("../trace.ts")).trace(out, key, options)),
    );
}
