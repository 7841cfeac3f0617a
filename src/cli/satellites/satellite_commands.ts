/**
 * Commands on satellites of a service: list, describe, register, configure, approve.
 */

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string): Commands;
  requiredOption(flags: string, text: string): Commands;
  addOption(option: never): Commands;
  action(run: (options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (name: string, options: Record<string, unknown>) => Promise<void>): Commands;
  action(run: (file: string, endpoint: string, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** The options that say where the service is, made for each command. */
interface PlaceOptions {
  readonly data: () => unknown;
  readonly url: () => unknown;
}

/** Adds them; `finish` ends the process with a code. */
export function addSatelliteCommands(
  root: Commands,
  { data, url }: PlaceOptions,
  finish: (code: number) => void,
): void {
  const satellites = root
    .command("satellites")
    .description("Satellites of a service: list, describe, register, configure, approve.");
  const add = (name: string, description: string): Commands =>
    satellites
      .command(name)
      .description(description)
      .option("--project <name>", "for this project")
      .addOption(data() as never)
      .addOption(url() as never)
      .option("--json", "print the answer as one JSON object");
  add("list", "Those that the project or key may run; of a folder without --project, all.")
    .option("--all", "those of all projects, in every state; needs a key with the scope admin")
    .action(async (options: Record<string, unknown>) =>
      finish(await (await import("./satellites.ts")).listSatellites(options)),
    );
  add("describe", "What one does, and the fields of its input and config.")
    .argument("<satellite>", "<namespace>/<name>")
    .action(async (name: string, options: Record<string, unknown>) =>
      finish(await (await import("./satellites.ts")).describeOne(name, options)),
    );
  add("register", "Register the satellites of a file, and print the secret of each, once.")
    .argument("<file>", "a module that exports them, or the JSON of perigee orbit describe")
    .argument("<endpoint>", "where perigee orbit serve answers: https, or this machine")
    .option("--community", "for every project, once verified and approved (default: for this project only)")
    .option("--name <name>", "only this one of the file")
    .option("--renew-secret", "make another secret for one that is registered")
    .action(async (file: string, endpoint: string, options: Record<string, unknown>) =>
      finish(await (await import("./satellites.ts")).registerSatellites(file, endpoint, options)),
    );
  add("configure", "Make a satellite of an existing one and settings that are fixed.")
    .argument("<name>", "lower case letters, digits, -")
    .requiredOption("--base <satellite>", "<namespace>/<name>")
    .requiredOption("--config <file>", "JSON object of the settings; - for standard input")
    .option("--description <text>", "what it does (default: that of the base)")
    .action(async (name: string, options: Record<string, unknown>) =>
      finish(await (await import("./satellites.ts")).configureSatellite(name, options)),
    );
  for (const [decision, description] of DECISIONS)
    add(decision, description)
      .argument("<satellite>", "<namespace>/<name>")
      .action(async (name: string, options: Record<string, unknown>) =>
        finish(await (await import("./satellites.ts")).decideSatellite(decision, name, options)),
      );
  add("remove", "Remove a satellite of the project; what would run it fails from now on.")
    .argument("<name>", "as satellites list shows it, without the namespace")
    .action(async (name: string, options: Record<string, unknown>) =>
      finish(await (await import("./satellites.ts")).removeSatellite(name, options)),
    );
}

const DECISIONS = [
  ["verify", "Ask the host of a community satellite, and run its example."],
  ["approve", "Let every project run a community satellite that is verified."],
  ["disable", "Let nobody run a satellite."],
  ["enable", "Make a satellite what it was before it was disabled."],
] as const;
