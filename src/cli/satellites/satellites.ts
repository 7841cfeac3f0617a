/**
 * `perigee satellites`: lists and describes satellites, registers and configures those of a project, and decides for the
 * operator.
 *
 * In the data folder of a service that is stopped, or through one that runs (`--url`, with the key in `PERIGEE_API_KEY`). In the folder
 * the caller is the operator, and may act for every project.
 */
import { readFile } from "node:fs/promises";
import { text as textOfStream } from "node:stream/consumers";
import { systemClock } from "../../clock.ts";
import { parseAllowList } from "../../egress/address.ts";
import { createEgress } from "../../egress/egress.ts";
import { PerigeeError } from "../../errors.ts";
import { vendorSatellites } from "../../satellites/builtin/vendor.ts";
import { openCatalogue } from "../../satellites/kinds/open_catalogue.ts";
import type { Catalogue, Registry, SatelliteView } from "../../satellites/sdk/catalogue.ts";
import { type SatelliteDescription, toWire } from "../../satellites/sdk/description.ts";
import type { ExecutionCaller } from "../../satellites/sdk/execution.ts";
import { createGuardedHttp } from "../../satellites/sdk/guarded_http.ts";
import {
  NAME,
  parseReference,
  referenceText,
  type SatelliteReference,
  VENDOR_NAMESPACE,
} from "../../satellites/sdk/reference.ts";
import { openVault, type VaultOptions } from "../../satellites/secrets/vault.ts";
import { satelliteAnswer } from "../../service/satellites/catalogue_schema.ts";
import type { AuditEvent, CatalogueEvent } from "../../store/audit/audit_line.ts";
import type { JsonObject } from "../../work/json.ts";
import { jsonObject } from "../json_object.ts";
import { onFolder, record } from "../service_folder.ts";
import { answer } from "./answer.ts";
import { descriptionsOf } from "./orbit_file.ts";
import { describeText, listText, type ShownSatellite } from "./satellite_text.ts";
import { callService, type ServiceCall } from "./service_client.ts";

/** What all have. */
interface SatelliteArguments {
  readonly data: string;
  readonly json?: boolean;
  readonly project?: string;
  readonly url?: string;
}

interface RegisterArguments extends SatelliteArguments {
  readonly community?: boolean;
  readonly name?: string;
  readonly renewSecret?: boolean;
}

interface ConfigureArguments extends SatelliteArguments {
  readonly base: string;
  readonly config: string;
  readonly description?: string;
}

export type Decision = "verify" | "approve" | "disable" | "enable";

const EVENTS: Readonly<Record<Decision, CatalogueEvent>> = {
  verify: "satellite.verified",
  approve: "satellite.approved",
  disable: "satellite.disabled",
  enable: "satellite.enabled",
};
const PAGE = 100;

/** Returns the exit code; throws for what `exitCodeOf` knows. As the others. */
export function listSatellites(options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SatelliteArguments & { readonly all?: boolean }; // commander's own shape, declared in main.ts
  return answer(given, async () => {
    const found: ShownSatellite[] = [];
    for (let after: string | undefined; ; ) {
      const page = await listPage(given, after);
      found.push(...page.satellites);
      after = page.last_id ?? undefined;
      if (!page.has_more) return { json: { satellites: found }, text: listText(found) };
    }
  });
}

export function describeOne(name: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SatelliteArguments; // as above
  return answer(given, async () => {
    const reference = referenceOf(name);
    const shown = (await over(given, { method: "GET", path: pathOf(reference) }, async (catalogue) => {
      const caller = callerOf(given.project ?? reference.namespace);
      return { shown: await catalogue.describe(caller, reference) };
    })) as ShownSatellite;
    return { json: shown, text: describeText(shown) };
  });
}

export function registerSatellites(
  file: string,
  endpoint: string,
  options: Record<string, unknown>,
): Promise<number> {
  const given = options as unknown as RegisterArguments; // as above
  return answer(given, async () => {
    const all = await descriptionsOf(file);
    const wanted = all.filter(({ name }) => given.name === undefined || name === given.name);
    if (wanted.length === 0) throw new PerigeeError("usage", `${file} has no satellite ${given.name}`);
    const done: ShownSatellite[] = [];
    for (const described of wanted) done.push(await registerOne(given, endpoint, described));
    const secrets = done.flatMap(({ satellite, secret }) =>
      secret === undefined ? [] : [`${satellite.split("/").at(-1)}=${secret}`],
    );
    const lines = done.map(({ satellite, kind, state }) => `registered ${satellite}: ${kind}, ${state}`);
    const how = `Keep the secrets now: nobody can show them again. Host the satellites with\nPERIGEE_ORBIT_SECRETS="${secrets.join(" ")}" perigee orbit serve ${file}`;
    return {
      json: { satellites: done },
      text: `${[...lines, ...(secrets.length === 0 ? [] : [how])].join("\n")}\n`,
    };
  });
}

export function configureSatellite(name: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as ConfigureArguments; // as above
  return answer(given, async () => {
    const base = referenceOf(given.base);
    const config = await configOf(given.config);
    const { description } = given;
    const about = description === undefined ? {} : { description };
    const body = { kind: "configured", base: referenceText(base), config, ...about };
    const call = { method: "PUT", path: pathOf(ownReference(given, name)), body };
    const shown = (await over(given, call, async (catalogue, project) => ({
      shown: await catalogue.configure(callerOf(project), name, { base, config, ...about }),
      kind: "satellite.put",
    }))) as ShownSatellite;
    return {
      json: shown,
      text: `configured ${shown.satellite}: ${given.base} with ${fixedText(shown)} fixed\n`,
    };
  });
}

export function decideSatellite(
  decision: Decision,
  name: string,
  options: Record<string, unknown>,
): Promise<number> {
  const given = options as unknown as SatelliteArguments; // as above
  return answer(given, async () => {
    const reference = referenceOf(name);
    const call = { method: "POST", path: `${pathOf(reference)}${decision}/` };
    const shown = (await over(given, call, async (catalogue) => ({
      shown: await catalogue[decision](reference),
      kind: EVENTS[decision],
    }))) as ShownSatellite;
    return { json: shown, text: `${shown.satellite} is ${shown.state}\n` };
  });
}

export function removeSatellite(name: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SatelliteArguments; // as above
  return answer(given, async () => {
    const reference = ownReference(given, name);
    const removed = { satellite: referenceText(reference), deleted: true };
    await over(given, { method: "DELETE", path: pathOf(reference) }, async (catalogue, project) => {
      await catalogue.remove(project, reference.name);
      return { shown: removed, reference, kind: "satellite.removed" };
    });
    return { json: removed, text: `${removed.satellite} is removed\n` };
  });
}

async function listPage(
  given: SatelliteArguments & { readonly all?: boolean },
  after: string | undefined,
): Promise<{ satellites: ShownSatellite[]; has_more: boolean; last_id: string | null }> {
  const { all, project, url } = given;
  const query = new URLSearchParams({
    limit: String(PAGE),
    ...(after === undefined ? {} : { after }),
    ...(all === true ? { all: "true" } : {}),
  });
  if (url !== undefined)
    return (await service(url, { method: "GET", path: `/v1/satellites/?${query}` })) as Awaited<
      ReturnType<typeof listPage>
    >;
  return await onCatalogue(given.data, async (catalogue) => {
    const page = { limit: PAGE, ...(after === undefined ? {} : { after }) };
    const isAll = all === true || project === undefined;
    const { items, hasMore } = isAll
      ? await catalogue.all(page)
      : await catalogue.list(callerOf(project), page);
    const last = items.at(-1)?.reference;
    return {
      satellites: items.map((view) => satelliteAnswer(view) as ShownSatellite),
      has_more: hasMore,
      last_id: last === undefined ? null : `${last.namespace}/${last.name}`,
    };
  });
}

async function registerOne(
  given: RegisterArguments,
  endpoint: string,
  described: SatelliteDescription,
): Promise<ShownSatellite> {
  const kind = given.community === true ? "community" : "custom";
  const isSecretRenewed = given.renewSecret === true;
  const body = { kind, url: endpoint, satellite: toWire(described), renew_secret: isSecretRenewed };
  const call = { method: "PUT", path: pathOf(ownReference(given, described.name)), body };
  return (await over(given, call, async (catalogue, project) => {
    const registration = { kind, url: endpoint, described, isSecretRenewed } as const;
    const { view, secret } = await catalogue.register(project, registration);
    return { shown: view, secret, kind: "satellite.put" };
  })) as ShownSatellite;
}

interface Done {
  readonly shown: SatelliteView | { readonly satellite: string };
  readonly secret?: string | undefined;
  /** What the audit log says of it. */
  readonly kind?: CatalogueEvent;
}

/** Through the service, or on the folder; resolves with what the service would answer. */
async function over(
  { url, data, project }: SatelliteArguments,
  call: ServiceCall,
  work: (catalogue: Catalogue & Registry, project: string) => Promise<Done>,
): Promise<unknown> {
  if (url !== undefined) return await service(url, call);
  const { shown, secret, kind } = await onCatalogue(data, (catalogue) => work(catalogue, project ?? ""));
  const json = "reference" in shown ? satelliteAnswer(shown) : shown;
  const satellite = "reference" in shown ? referenceText(shown.reference) : shown.satellite;
  const event: AuditEvent | undefined =
    kind === undefined ? undefined : { kind, project: project ?? satellite.split("/")[1] ?? "", satellite };
  if (event !== undefined) await record(data, event);
  return { ...json, ...(secret === undefined ? {} : { secret }) };
}

function service(url: string, call: ServiceCall): Promise<unknown> {
  return callService({ url, key: process.env["PERIGEE_API_KEY"] }, call);
}

function onCatalogue<T>(dataDir: string, work: (catalogue: Catalogue & Registry) => Promise<T>): Promise<T> {
  return onFolder(dataDir, async (options: VaultOptions) => {
    const { store } = options;
    const allow = parseAllowList(process.env["PERIGEE_EGRESS_ALLOW"]);
    const http = createGuardedHttp(createEgress({ clock: systemClock, allow }));
    const vault = await openVault(options);
    const parts = { clock: systemClock, store, vault, http, vendor: vendorSatellites() };
    return await work(await openCatalogue(parts));
  });
}

/** The process itself, which no flag keeps from anything. */
function callerOf(project: string): ExecutionCaller {
  return { project, keyId: undefined, isBeta: true };
}

/** `satellite/<namespace>/<name>`, or without the first word. */
function referenceOf(text: string): SatelliteReference {
  const found = parseReference(text.startsWith("satellite/") ? text : `satellite/${text}`);
  if (found !== undefined) return found;
  throw new PerigeeError("usage", `a satellite is named <namespace>/<name>, got ${JSON.stringify(text)}`);
}

/** A satellite of the named project, which with `--url` is the key's. */
function ownReference({ project }: SatelliteArguments, name: string): SatelliteReference {
  if (project === undefined || !NAME.test(project) || project === VENDOR_NAMESPACE)
    throw new PerigeeError("usage", "--project must name the project whose satellite it is");
  if (!NAME.test(name))
    throw new PerigeeError("usage", `${JSON.stringify(name)} is not a valid name of a satellite`);
  return { namespace: project, name };
}

/** JSON of a file, or of standard input: every process of the machine could read an argument. */
async function configOf(file: string): Promise<JsonObject> {
  const text = file === "-" ? await textOfStream(process.stdin) : await readFile(file, "utf8");
  return jsonObject(text, `--config ${file} must hold a JSON object`);
}

function pathOf({ namespace, name }: SatelliteReference): string {
  return `/v1/satellites/${namespace}/${name}/`;
}

function fixedText({ base }: ShownSatellite): string {
  const names = base?.fixed_config ?? [];
  return names.length === 0 ? "nothing" : names.join(", ");
}
