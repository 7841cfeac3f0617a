/**
 * Providers that a caller brings: a function or a codec in code, or a module that exports one as its default.
 *
 *   options.providers[name]   a function, or a codec            used as it is
 *                             { module: "./my_provider.js" }    imported when the engine opens
 *
 * Modules are named by the operator's options and configuration file only; no request names one. They run with the rights
 * of this process.
 */
import { dirname, isAbsolute, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { messageOf, PerigeeError } from "../../errors.ts";
import type { ProviderFunction } from "../../providers/function.ts";
import { codecFault, isCodec } from "../../providers/own_codec.ts";
import type { Provider, ProviderSettings } from "../../providers/provider.ts";

/** A provider in code. */
export type OwnProvider = ProviderFunction | Provider;

/** Names that a provider may have. */
const NAME = /^[a-z0-9][a-z0-9_-]*$/;

/** Whether the options of a provider are the provider itself. */
export function isOwnProvider(value: unknown): value is OwnProvider {
  return typeof value === "function" || isCodec(value);
}

/** Splits providers in code from options, which a schema checks. Throws `invalid_config` for a wrong name or half a codec. */
export function splitOwn(providers: Readonly<Record<string, unknown>>): {
  readonly own: Readonly<Record<string, OwnProvider>>;
  readonly rest: Readonly<Record<string, unknown>>;
} {
  const entries = Object.entries(providers);
  const own = entries.filter((entry): entry is [string, OwnProvider] => isOwnProvider(entry[1]));
  for (const [name, provider] of own) {
    if (!NAME.test(name)) throw invalid(name, `a provider's name must match ${NAME.source}`);
    const fault = typeof provider === "function" ? embedFault(provider) : codecFault(provider);
    if (fault !== undefined) throw invalid(name, fault);
  }
  return {
    own: Object.fromEntries(own),
    rest: Object.fromEntries(entries.filter(([, value]) => !isOwnProvider(value))),
  };
}

function embedFault({ embed }: ProviderFunction): string | undefined {
  if (embed === undefined) return undefined;
  if (typeof embed !== "function") return `embed must be a function, got ${typeof embed}`;
  const { inputsMax = 1 } = embed;
  if (Number.isInteger(inputsMax) && inputsMax >= 1) return undefined;
  return `embed.inputsMax must be a whole number from 1, got ${String(inputsMax)}`;
}

/** The modules of a configuration file's providers, by absolute paths: they are relative to the file. */
export function withModulesBeside<T extends { readonly module?: string }>(
  providers: Readonly<Record<string, T | OwnProvider>>,
  configPath: string,
): Record<string, T | OwnProvider> {
  const folder = dirname(resolve(configPath));
  return Object.fromEntries(
    Object.entries(providers).map(([name, given]) => [
      name,
      isOwnProvider(given) || given.module === undefined
        ? given
        : { ...given, module: pathOf(given.module, folder) },
    ]),
  );
}

/** Imports the modules that options name. Throws `invalid_config` with the module and what is wrong with it. */
export async function importModules(
  providers: Readonly<Record<string, OwnProvider | { readonly module?: string }>> = {},
): Promise<ReadonlyMap<string, OwnProvider>> {
  const found = new Map<string, OwnProvider>();
  for (const [name, given] of Object.entries(providers)) {
    if (isOwnProvider(given) || given.module === undefined) continue;
    found.set(name, await imported(name, pathOf(given.module, process.cwd())));
  }
  return found;
}

async function imported(name: string, path: string): Promise<OwnProvider> {
  const place = `${name}.module`;
  let found: unknown;
  try {
    found = ((await import(pathToFileURL(path).href)) as { readonly default?: unknown }).default;
  } catch (cause) {
    const reason = messageOf(cause);
    throw invalid(place, `${path} cannot be loaded: ${reason}`, cause);
  }
  const expected = "a module exports its provider as default: a function, or a codec";
  if (!isOwnProvider(found))
    throw invalid(place, `${path} has no provider as its default export; ${expected}`);
  const fault = typeof found === "function" ? embedFault(found) : codecFault(found);
  if (fault !== undefined) throw invalid(place, `${path}: ${fault}`);
  return found;
}

function pathOf(module: string, folder: string): string {
  if (module.startsWith("file:")) return fileURLToPath(module);
  return isAbsolute(module) ? module : resolve(folder, module);
}

/** Settings of a provider in code. `given` are its options beside a module. */
export function ownSettings(
  name: string,
  own: OwnProvider,
  given: Pick<ProviderSettings, "timeoutMs" | "unsupportedConfig"> = {},
): ProviderSettings {
  if (typeof own === "function")
    return { name, protocol: "function", baseUrl: "", ...embeddingSettings(own), ...given };
  return { ...own.settings, ...given, name, hasOwnCodec: true };
}

function embeddingSettings({ embed }: ProviderFunction): Partial<ProviderSettings> {
  if (typeof embed !== "function") return {};
  const { inputsMax } = embed;
  return { embeds: true, ...(inputsMax === undefined ? {} : { embeddingInputsMax: inputsMax }) };
}

function invalid(place: string, message: string, cause?: unknown): PerigeeError {
  return new PerigeeError("invalid_config", `providers.${place}: ${message}`, { cause });
}
