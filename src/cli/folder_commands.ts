/**
 * Commands on data folders: backup, restore, repair, audit (which reads logs of usage, too).
 */

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string): Commands;
  option(
    flags: string,
    text: string,
    read: (text: string, before?: readonly number[]) => readonly number[],
  ): Commands;
  requiredOption(flags: string, text: string): Commands;
  action(run: (argument: string, options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (argument: string | undefined, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** Adds them; `slas` reads a list of minutes, `finish` ends the process with a code. */
export function addFolderCommands(
  root: Commands,
  slas: (text: string, before?: readonly number[]) => readonly number[],
  finish: (code: number) => void,
): void {
  root
    .command("backup")
    .description("Write a data folder to one file, consistent with itself. Works while perigee serve runs.")
    .argument("<data>", "the data folder")
    .requiredOption("--to <file>", "a file that does not exist yet, on another disk")
    .option("--json", "print what was written as one JSON object")
    .action(async (data: string, options: Record<string, unknown>) =>
      finish(await (await import("./backup.ts")).backup(data, options)),
    );
  root
    .command("restore")
    .description("Make a data folder from a backup, checked against its checksums.")
    .argument("<file>", "the file that perigee backup wrote")
    .requiredOption("--data <dir>", "a folder that does not exist yet, or is empty")
    .option("--json", "print what was restored as one JSON object")
    .action(async (file: string, options: Record<string, unknown>) =>
      finish(await (await import("./backup.ts")).restore(file, options)),
    );
  root
    .command("repair")
    .description("Rewrite an output that was cut or changed from the lines that are left. Sends nothing.")
    .argument("<out>", "the output of a run")
    .option("--data <dir>", "where the run keeps its state (default: OUT.perigee/)")
    .option("--json", "print what was found as one JSON object")
    .action(async (out: string, options: Record<string, unknown>) =>
      finish(await (await import("./repair.ts")).repair(out, options)),
    );
  addAudit(root, slas, finish);
}

function addAudit(
  root: Commands,
  slas: (text: string, before?: readonly number[]) => readonly number[],
  finish: (code: number) => void,
): void {
  root
    .command("audit")
    .description(
      "What a log of usage cost, and what it would have cost with slas. Sends nothing. Without a log: check that nobody changed the audit log of a service.",
    )
    .argument("[log]", "JSON lines: usage exports, spend logs, spans; or - for standard input")
    .option("--sla <minutes>", "one or more windows, comma separated (default: 15,60,1440)", slas)
    .option("--prices <file>", "your own price sheet; its prices take precedence")
    .option("--data <dir>", "data folder of the service, without a log (default: ./perigee-data)")
    .option("--json", "print what was found as one JSON object")
    .action(async (log: string | undefined, options: Record<string, unknown>) =>
      finish(await (await import("./usage/audit.ts")).audit(log, options)),
    );
}
