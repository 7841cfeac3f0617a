/**
 * Defines the commands on the database of a fleet: `perigee migrate` and `perigee workers`.
 */

/** The part of commander's `Command` that this file uses; only `main.ts` imports commander. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  option(flags: string, text: string): Commands;
  requiredOption(flags: string, text: string): Commands;
  action(run: (options: Record<string, unknown>) => Promise<void>): Commands;
}

const STORE = ["--store <url>", "a fleet on PostgreSQL: postgres://user@host:port/database"] as const;

/** Adds the commands; `finish` ends the process with an exit code. */
export function addFleetCommands(root: Commands, finish: (code: number) => void): void {
  root
    .command("migrate")
    .description(
      "Make or migrate the tables of a fleet, before its workers are upgraded. Two at once migrate once; a newer schema is refused.",
    )
    .requiredOption(...STORE)
    .option("--check", "change nothing: exit code 1 when a migration is needed")
    .option("--json", "print the schema before and after as one JSON object")
    .action(async (options) => finish(await (await import("./migrate.ts")).migrate(options)));
  root
    .command("workers")
    .description(
      "The workers of a fleet and their partitions, as the database has them. A worker that died is shown for a minute.",
    )
    .requiredOption(...STORE)
    .option("--json", "print them as one JSON object")
    .action(async (options) => finish(await (await import("./workers.ts")).workers(options)));
}
