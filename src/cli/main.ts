#!/usr/bin/env node
/**
 * The command line: reads arguments, starts the engine, shows what happens, and ends with a code.
 *
 *   exit 0 every line answered, or detached · 3 some lines ended in error · 2 usage or configuration · 74 input or output
 *   130 interrupted · 70 the service was blocked · 1 a fault of perigee itself
 */
import { readFileSync } from "node:fs";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { systemClock } from "../clock.ts";
import { checkVariables } from "../engine/config/variables.ts";
import { PerigeeError } from "../errors.ts";
import { LANE_POLICIES } from "../queue/lane_choice.ts";
import { LINE_FORMATS } from "../work/line_layout.ts";
import { addBatchCommands } from "./batches/batch_commands.ts";
import { outliveOutput } from "./closed_output.ts";
import { endProcess, exitCodeOf, printError, standStill } from "./exit.ts";
import { addFleetCommands } from "./fleet/fleet_commands.ts";
import { addFolderCommands } from "./folder_commands.ts";
import { tuneHeap } from "./heap.ts";
import { addForecastCommands } from "./run/forecast_commands.ts";
import { withLanes } from "./run/lane_options.ts";
import {
  CACHE,
  DELIVERY,
  FIELDS,
  FORMAT,
  LANES,
  NO_LEARN,
  QUIET,
  RECEIPTS,
  SCHEMA,
  SCHEMA_TRIES,
  STATE,
  UNSUPPORTED,
} from "./run/run_choices.ts";
import { addSimulateCommand } from "./run/simulate_command.ts";
import { addStatusCommands } from "./run/status_commands.ts";
import { addOrbitCommands } from "./satellites/orbit_commands.ts";
import { addSatelliteCommands } from "./satellites/satellite_commands.ts";
import { NO_CONFIG } from "./setup/config_words.ts";
import { addSetupCommands } from "./setup/setup_commands.ts";
import { addRunTableOptions } from "./tables/table_options.ts";
import {
  ageText,
  amount,
  durationMs,
  items,
  list,
  modelId,
  namedCap,
  portNumber,
  slaList,
  slaMinutes,
  waitMs,
} from "./values.ts";

const EXIT_USAGE = 2;
const STORE = ["--store <url>", "a fleet on PostgreSQL: postgres://user@host:port/database"] as const;

/**
 * Commander parses, prints help and finds typing errors, and nothing else. Commands are loaded when they are called:
 * each module takes half a millisecond. What `run` loads is put into one file (scripts/bundle.ts).
 */
function program(): Command {
  const root = new Command("perigee")
    .description("Bulk LLM inference: a file of requests in, exactly one answer per key out.")
    .version(version())
    .exitOverride()
    .hook("preAction", async (_root, command) => {
      if (command.options.some(({ long }) => long === "--no-config")) await findFiles(command);
      checkVariables(process.env);
    });
  declareRun(root);
  addForecastCommands(root, { checked, choice }, finish);
  addSimulateCommand(root, checked, finish);
  addStatusCommands(root, finish);
  addServe(root);
  addKeys(root);
  addSecrets(root);
  addCluster(root);
  addSatelliteCommands(root, { data: dataOption, url: urlOption }, finish);
  addOrbitCommands(root, checked(portNumber), finish);
  addFolderCommands(root, checked(slaList), finish);
  addFleetCommands(root, finish);
  addBatchCommands(root, finish);
  addSetupCommands(root, checked(modelId), finish);
  nameHelp(root, "perigee");
  return root;
}

/** Commands of a person in a folder use the configuration and the `.env` there; a service uses what it is started with. */
async function findFiles(command: Command): Promise<void> {
  const { useFoundFiles } = await import("./setup/found_files.ts");
  useFoundFiles(command, process.env, (line) => process.stderr.write(`${line}\n`));
}

/** A wrong option of a command refers to the help of that command. */
function nameHelp(command: Command, name: string): void {
  command.showHelpAfterError(`(${name} --help shows all options)`);
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`);
}

function declareRun(root: Command): void {
  const command = root
    .command("run")
    .description("Answer every line of a file. The same command again continues where it was.")
    .argument("<input>", "JSONL file, .json array, a table with --prompt, or - for standard input")
    .requiredOption("-o, --out <file>", "where the answers go, one line per key")
    .option("--data <dir>", "where the run keeps its state (default: OUT.perigee/)")
    .option(
      "--sla <minutes>",
      "answer within this many minutes (1 to 43200, or 90m, 24h, 7d); without it, at once",
      checked(slaMinutes),
    )
    .option("--config <file>", "configuration: providers, limits, prices")
    .option(...NO_CONFIG)
    .option("--prices <file>", "your own price sheet; its prices take precedence")
    .option("--max-cost <usd>", "hard cap on what the providers may charge", checked(amount))
    .option("--cap <cap>", "NAME=USD: a cap that all runs with this --data and name share", checked(namedCap))
    .option(
      "--max-cost-unbounded",
      "also send what a cap cannot bound: audio, files, models without a known price",
    )
    .option("--model <id>", "run every line on this model instead, such as echo:test", checked(modelId))
    .option("--ordered", "write the answers in the order of the input")
    .option(...SCHEMA)
    .option(...SCHEMA_TRIES, checked(items))
    .option(...RECEIPTS)
    .option(...CACHE.dir)
    .option(...CACHE.ttl, checked(ageText))
    .option(...CACHE.coalesce)
    .addOption(new Option(...FORMAT).choices([...LINE_FORMATS]))
    .option(...FIELDS, checked(list))
    .option(
      "--retry-failed [codes]",
      "run lines again that ended with one of these codes (comma separated); without codes, those whose error is retryable or that expired",
      checked(list),
    )
    .option("--update", "the input has grown or changed: keep the answers of unchanged lines, run the others")
    .option("--prune", "with --update: remove the lines of keys that are no longer in the input")
    .option(
      "--pilot <items>",
      "answer so many items first, print a quote of the rest, and ask on a terminal whether to continue",
      checked(items),
    )
    .option("--yes", "continue after the pilot without asking")
    .option(
      "--wait <duration>",
      "how long to wait when only held items are left: 90s, 30m, 2h; 0 does not wait (default: 30m, 2m without money)",
      checked(waitMs),
    )
    .option(
      "--finish",
      "end held items in an error that has the reason, instead of leaving them for the next run",
    )
    .addOption(new Option(...UNSUPPORTED).choices(["drop", "refuse"]))
    .addOption(new Option(...DELIVERY).choices(["at_least_once", "at_most_once"]))
    .option("--hedge", "send a second request beside one that hangs; the first complete answer counts")
    .addOption(new Option(...LANES.policy).choices([...LANE_POLICIES]));
  declareRunForm(command);
}

/** Of `run`: tables, lanes, and how it shows itself. */
function declareRunForm(command: Command): void {
  addRunTableOptions((flags, text, read) =>
    read === undefined ? command.option(flags, text) : command.option(flags, text, checked(read)),
  );
  withLanes(command, checked)
    .addOption(new Option(...STATE))
    .option(...NO_LEARN)
    .option(...QUIET)
    .option("--json", "print a summary as one JSON object on standard output")
    .option(...STORE)
    .option("--objects <url>", "with --store: where its workers have files (their --objects)")
    .action(async (input: string, options: Record<string, unknown>) => {
      const isGiven = (name: string): boolean => command.getOptionValueSource(name) === "cli";
      if (options["store"] === undefined) finish(await (await import("./run/run.ts")).run(input, options));
      else finish(await (await import("./run/fleet_run.ts")).fleetRun(input, options, isGiven));
    });
}

function addServe(root: Command): void {
  root
    .command("serve")
    .description("The HTTP service on a data folder. Prints its address as one line of JSON.")
    .option("--host <address>", "where to listen", "127.0.0.1")
    .option("--port <number>", "0 takes a free one", checked(portNumber), 8080)
    .option("--data <dir>", "where the service keeps its state", "./perigee-data")
    .option("--config <file>", "configuration: providers, limits, prices")
    .option("--behind-proxy", "a TLS proxy is in front: listen on any address, believe X-Forwarded-For")
    .option("--public-url <url>", "where users reach the service (default: where it listens)")
    .option("--default-sla <duration>", 'deadline of calls with service_tier "flex", such as 15m')
    .option(
      "--metrics-port <number>",
      "serve /metrics on this port instead of only to this machine",
      checked(portNumber),
    )
    .addOption(
      new Option("--log-level <level>", "error: only faults, no line for each request")
        .choices(["info", "error"])
        .default("info"),
    )
    .option(...STORE)
    .option(
      "--objects <url>",
      "with --store: where large files are, file:///shared/folder or s3://bucket/prefix (default: the database)",
    )
    .addOption(
      new Option(
        "--role <role>",
        "with --store: all is the default, api only answers callers, worker only owns work",
      ).choices(["all", "api", "worker"]),
    )
    .option("--name <name>", "with --store: of this worker (default: the name of the machine)")
    .option("--private-host <address>", "with --store: where other workers reach it (default: 127.0.0.1)")
    .option("--private-port <number>", "with --store: 0, the default, takes a free one", checked(portNumber))
    .action(async (options: Record<string, unknown>) => {
      const { serve } = await import("./serve.ts"); // the server takes longer to load than other commands to run
      finish(await serve(options));
    });
}

function addKeys(root: Command): void {
  const keys = root
    .command("keys")
    .description("API keys of a service: make, list, revoke. Works while perigee serve runs.");
  const load = (): Promise<typeof import("./keys.ts")> => import("./keys.ts");
  keys
    .command("create")
    .description("Make a key for a project and print it, once.")
    .requiredOption("--project <name>", "whose tasks and files it sees: lower case letters, digits, -")
    .option("--name <name>", "what it is for; two active keys of one name at most", "default")
    .option("--scopes <list>", "comma separated (default: every one but admin)", checked(list))
    .option("--beta", "may run vendor satellites")
    .option("--admin", "has the scope admin as well")
    .option(
      "--expires <duration>",
      "is refused after 90m, 24h, 30d, ... (default: never)",
      checked(durationMs),
    )
    .addOption(dataOption())
    .option(...STORE)
    .option("--json", "print id, key, project and scopes as one JSON object")
    .action(async (options: Record<string, unknown>) => finish(await (await load()).createKey(options)));
  keys
    .command("list")
    .description("The keys that were made, revoked and expired ones as well.")
    .option("--project <name>", "of this project only")
    .addOption(dataOption())
    .option(...STORE)
    .option("--json", "print them as one JSON object")
    .action(async (options: Record<string, unknown>) => finish(await (await load()).listKeys(options)));
  keys
    .command("revoke")
    .description("Refuse a key from now on; a running service does within a second.")
    .argument("<id>", "as keys list shows it")
    .addOption(dataOption())
    .option(...STORE)
    .option("--json", "print the key as one JSON object")
    .action(async (id: string, options: Record<string, unknown>) =>
      finish(await (await load()).revokeKey(id, options)),
    );
}

function addCluster(root: Command): void {
  const cluster = root
    .command("cluster")
    .description("Clusters of satellites: run a declaration here, or check it.");
  const input = (): Option =>
    new Option("--input <json>", "the value of references to input: an object, or a file that holds one");
  const load = (): Promise<typeof import("./satellites/cluster.ts")> => import("./satellites/cluster.ts"); // heavy, as the server
  cluster
    .command("run")
    .description("Run a cluster and show its members. The same command again continues where it was.")
    .argument("<file>", "declaration in YAML or JSON")
    .addOption(dataOption())
    .addOption(input())
    .option("--config <file>", "configuration: providers, limits, prices")
    .option(...NO_CONFIG)
    .option("--new", "begin another run, although there was one of this declaration and input")
    .option("--json", "print the run with all outputs as one JSON object on standard output")
    .action(async (file: string, options: Record<string, unknown>) =>
      finish(await (await load()).runCluster(file, options)),
    );
  cluster
    .command("check")
    .description("List the mistakes in a declaration, as FILE:line:column: message. Runs nothing.")
    .argument("<file>", "declaration in YAML or JSON")
    .option("--data <dir>", "also know the satellites of the project local in this data folder")
    .addOption(input())
    .option("--json", "print what is wrong as one JSON object")
    .action(async (file: string, options: Record<string, unknown>) =>
      finish(await (await load()).checkCluster(file, options)),
    );
}

function addSecrets(root: Command): void {
  const secrets = root
    .command("secrets")
    .description(
      "Secrets that satellites use as secret://NAME: set, list, remove. Nothing shows their values.",
    );
  const add = (name: string, description: string): Command =>
    secrets
      .command(name)
      .description(description)
      .addOption(new Option("--project <name>", "whose secrets they are").conflicts("url"))
      .addOption(dataOption())
      .addOption(urlOption())
      .option("--json", "print what was done as one JSON object");
  add("set", "Make or replace a secret. The value is read from standard input, or from the environment.")
    .argument("<name>", "lower case letters, digits, -")
    .option("--from-env <variable>", "take the value of this variable instead of standard input")
    .action(async (name: string, options: Record<string, unknown>) => {
      const { setSecret } = await import("./satellites/secrets.ts");
      finish(await setSecret(name, options));
    });
  add("list", "The names, and when they were set.").action(async (options: Record<string, unknown>) => {
    const { listSecrets } = await import("./satellites/secrets.ts");
    finish(await listSecrets(options));
  });
  add("remove", "Remove a secret; what uses it fails from now on.")
    .argument("<name>", "as secrets list shows it")
    .action(async (name: string, options: Record<string, unknown>) => {
      const { removeSecret } = await import("./satellites/secrets.ts");
      finish(await removeSecret(name, options));
    });
  secrets
    .command("rotate-key")
    .description(
      "Encrypt all secrets of a stopped service under another key. After a stop, the same command again continues.",
    )
    .addOption(dataOption())
    .option("--json", "print what was done as one JSON object")
    .addHelpText(
      "after",
      "\nPERIGEE_SECRETS_OLD_KEY is the key until now (default: the one in the data folder), PERIGEE_SECRETS_KEY the new one\n(default: a new one in the data folder); each may be named by a file instead, as PERIGEE_SECRETS_KEY_FILE.",
    )
    .action(async (options: Record<string, unknown>) => {
      const { rotateKey } = await import("./satellites/secrets.ts");
      finish(await rotateKey(options));
    });
}

function dataOption(): Option {
  return new Option("--data <dir>", "data folder of the service").default("./perigee-data");
}

function urlOption(): Option {
  return new Option("--url <url>", "ask the service there, with the key in PERIGEE_API_KEY").conflicts(
    "data",
  );
}

function finish(code: number): void {
  process.exitCode = code;
}

function choice([flags, text]: readonly [string, string], choices: readonly string[]): Option {
  return new Option(flags, text).choices([...choices]);
}

/** Commander shows the option and the text with it. */
function checked<T>(read: (text: string, before?: T) => T): (text: string, before?: T) => T {
  return (text, before) => {
    try {
      return read(text, before);
    } catch (error) {
      throw error instanceof PerigeeError ? new InvalidArgumentError(error.message) : error;
    }
  };
}

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "0";
}

const firstCollection = tuneHeap(systemClock);
outliveOutput();
process.on("beforeExit", standStill);
try {
  await program().parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : EXIT_USAGE;
  } else {
    printError(error);
    process.exitCode = exitCodeOf(error);
  }
} finally {
  process.off("beforeExit", standStill);
  firstCollection.cancel();
}
await endProcess();
