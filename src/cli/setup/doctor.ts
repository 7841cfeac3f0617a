/**
 * `perigee doctor`: whether a run from here would work. For each provider that is configured or has a key or a base URL: where its
 * key comes from, whether it answers, the limits that it states; for this machine: Node, the files that are used, the disk, the clock.
 * Without `--send` it sends nothing that costs money, and shows no key.
 */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, relative, resolve } from "node:path";
import { systemClock } from "../../clock.ts";
import { systemDisk } from "../../disk.ts";
import { proxiesFrom } from "../../dispatch/proxy.ts";
import type { Transport } from "../../dispatch/transport.ts";
import { createUndiciTransport, loadUndici } from "../../dispatch/undici.ts";
import { type ConfigOptions, resolveConfig } from "../../engine/config/config.ts";
import { keyPlace, keyVariable } from "../../engine/config/key_places.ts";
import { importModules, isOwnProvider } from "../../engine/config/own_providers.ts";
import { namesIn } from "../../engine/config/variables.ts";
import { PerigeeError } from "../../errors.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { createProvider, KNOWN_PROVIDERS } from "../../providers/registry.ts";
import { unknownProviderMessage } from "../../work/unknown_provider.ts";
import { errorJson } from "../exit.ts";
import { sizeText } from "../numbers.ts";
import { readConfiguration } from "./config_file.ts";
import { findEnv } from "./found_files.ts";
import { probe, probedModel } from "./probe.ts";
import { type Check, checkProvider, type ProviderAnswer } from "./provider_check.ts";

const EXIT_FAILS = 2;
const FREE_BYTES_MIN = 1024 ** 3;
const READABLE_BY_OTHERS = 0o004;
const CONNECTIONS_MAX = 4;
/** Of the column of names. */
const NAME_CELLS = 16;

/** Options as commander parses them. */
interface DoctorArguments {
  readonly config?: string;
  readonly envFile?: string;
  readonly data: string;
  readonly send?: boolean;
  readonly model?: string;
  readonly json?: boolean;
}

/** Returns the exit code: 2 when something that is configured does not work. Throws for what `exitCodeOf` knows. */
export async function doctor(names: readonly string[], options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as DoctorArguments; // commander's own shape, declared in setup_commands.ts
  try {
    const checks: Check[] = [];
    for await (const check of allChecks(names, given)) {
      checks.push(check);
      if (given.json !== true) process.stdout.write(checkText(check));
    }
    const isFailing = checks.some(({ state }) => state === "fails");
    const status = isFailing ? "fails" : "ok";
    if (given.json === true)
      process.stdout.write(
        `${JSON.stringify({ status, checks: checks.map(({ facts, ...check }) => ({ ...check, ...facts })) })}\n`,
      );
    return isFailing ? EXIT_FAILS : 0;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function* allChecks(names: readonly string[], given: DoctorArguments): AsyncGenerator<Check> {
  yield { name: "node", state: "ok", text: process.versions.node };
  const { config } = given;
  const text = config ?? "no configuration: perigee init writes one";
  yield { name: "config", state: "ok", text, facts: { config_file: config ?? null } };
  const options = config === undefined ? {} : await readConfiguration(config);
  yield* envChecks(given);
  yield await diskCheck(given.data);
  yield* providerChecks(names, options, given);
}

function* envChecks({ envFile }: DoctorArguments): Generator<Check> {
  if (envFile === undefined) return;
  const path = findEnv({ folder: process.cwd(), home: homedir(), userId: process.getuid?.() });
  if (path === undefined) return;
  const isOpen = (statSync(path).mode & READABLE_BY_OTHERS) !== 0;
  const shown = relative(process.cwd(), path);
  yield {
    name: "env",
    state: isOpen ? "note" : "ok",
    text: isOpen ? `${shown} can be read by every user of this machine` : shown,
    ...(isOpen ? { todo: `chmod 600 ${shown}` } : {}),
    facts: { env_file: shown },
  };
}

/** Of the folder, or of the nearest one above that exists. */
async function diskCheck(folder: string): Promise<Check> {
  let existing = resolve(folder);
  while (!existsSync(existing)) existing = dirname(existing);
  const shown = relative(process.cwd(), existing) || ".";
  try {
    accessSync(existing, constants.W_OK | constants.X_OK);
  } catch {
    const todo = "choose another folder with --out or --data";
    return { name: "disk", state: "fails", text: `${shown} is not writable`, todo };
  }
  const freeBytes = await systemDisk.freeBytes?.(existing).catch(() => undefined);
  if (freeBytes === undefined) return { name: "disk", state: "ok", text: `${shown} is writable` };
  const isShort = freeBytes < FREE_BYTES_MIN;
  const todo = "free some: the answers and the state of a run need about twice the size of its input";
  return {
    name: "disk",
    state: isShort ? "note" : "ok",
    text: `${shown} is writable, ${sizeText(freeBytes)} free`,
    ...(isShort ? { todo } : {}),
    facts: { free_bytes: freeBytes },
  };
}

async function* providerChecks(
  names: readonly string[],
  options: ConfigOptions,
  given: DoctorArguments,
): AsyncGenerator<Check> {
  const modules = await importModules(options.providers);
  const { providers, keysMissing, prices } = resolveConfig(options, process.env, modules);
  const wanted = wantedOf(providers, names, options, given);
  if (wanted.length === 0) {
    const todo =
      "set a key, such as OPENAI_API_KEY, in the environment or in .env; --model echo:test works without one";
    yield { name: "providers", state: "note", text: "none is configured, and no key is set", todo };
  }
  const transport = createUndiciTransport(
    { clock: systemClock, connectionsMax: CONNECTIONS_MAX, proxyOf: proxiesFrom(process.env) },
    await loadUndici(),
  );
  try {
    for (const settings of wanted) {
      const missing = keysMissing.get(settings.name);
      const answer = await answerOf(settings, missing, options, transport);
      yield answer.check;
      if (given.send !== true || answer.check.state === "fails") continue;
      const model = given.model ?? (await probedModel(settings.name, answer.models, prices));
      yield await probe(settings.name, model, options);
    }
  } finally {
    await transport.close();
  }
}

/** Those named; otherwise those that the configuration or the environment says something of. Throws `usage`. */
function wantedOf(
  providers: readonly ProviderSettings[],
  names: readonly string[],
  options: ConfigOptions,
  { model }: DoctorArguments,
): readonly ProviderSettings[] {
  const asked = model === undefined ? names : [...names, model.split(":")[0] ?? ""];
  for (const name of asked) {
    if (providers.some((one) => one.name === name)) continue;
    const configured = providers.map((one) => one.name);
    throw new PerigeeError("usage", unknownProviderMessage(name, configured));
  }
  if (asked.length > 0) return providers.filter(({ name }) => asked.includes(name));
  const inEnvironment = new Set(namesIn(process.env));
  return providers.filter(({ name, key, baseUrl }) => {
    if (options.providers?.[name] !== undefined || inEnvironment.has(name)) return true;
    return (key !== undefined && name !== "google") || baseUrl !== (KNOWN_PROVIDERS.get(name)?.baseUrl ?? "");
  });
}

async function answerOf(
  settings: ProviderSettings,
  keyMissing: string | undefined,
  options: ConfigOptions,
  transport: Transport,
): Promise<ProviderAnswer> {
  const { name, protocol } = settings;
  if (protocol === "echo" || protocol === "function" || settings.hasOwnCodec === true) {
    const text = protocol === "echo" ? "it answers by itself" : "its module is loaded; only --send asks it";
    return { check: { name, state: "ok", text }, models: [] };
  }
  const variable = keyVariable(name);
  if (keyMissing !== undefined)
    return { check: { name, state: "fails", text: "it has no key", todo: `set ${variable}` }, models: [] };
  const keyFrom = keySource(settings, options);
  return checkProvider(
    { provider: createProvider(settings), keyFrom, keyVariable: variable },
    transport,
    systemClock,
  );
}

/** The variable that holds the key, or the configuration. */
function keySource({ name, key }: ProviderSettings, { providers = {} }: ConfigOptions): string | undefined {
  if (key === undefined) return undefined;
  const given = providers[name];
  if (given !== undefined && !isOwnProvider(given) && given.key !== undefined) return "the configuration";
  return keyPlace(name, undefined, process.env);
}

/** `openai      ok     it answers ...`, and what to do in a row of its own. */
function checkText({ name, state, text, todo }: Check): string {
  const row = `${name.padEnd(NAME_CELLS)}  ${state.padEnd(5)}  ${text}\n`;
  return todo === undefined ? row : `${row}${" ".repeat(NAME_CELLS + 9)}to do: ${todo}\n`;
}
