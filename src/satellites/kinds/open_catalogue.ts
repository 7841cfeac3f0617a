/**
 * The catalogue on a store: satellites of the program, and those that projects registered. States and who
 * may run what: `catalogue.ts`.
 *
 * Everything is held in memory, since each attempt of an execution asks; changes go through here, one after another, and
 * are in memory once they are durable. The process owns its store, so nobody else changes it. Where projects have several stores (a fleet), each
 * catalogue changes its own satellites and reads those of the others before it answers.
 *
 * Limits: 100 satellites a project; a configured one is based on at most 8 others; 64 KiB of fixed settings.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { StoredRecord } from "../../store/records.ts";
import type { Page, PageQuery } from "../../tasks/shapes/task_view.ts";
import { newOrbitSecret } from "../orbit/signature.ts";
import type {
  Catalogue,
  Configuration,
  Registration,
  Registry,
  ResolvedSatellite,
  SatelliteView,
} from "../sdk/catalogue.ts";
import { descriptionHash } from "../sdk/description.ts";
import type { ExecutionCaller } from "../sdk/execution.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import { NAME, type SatelliteReference, VENDOR_NAMESPACE } from "../sdk/reference.ts";
import { fieldFault, noSatellite } from "./catalogue_refusals.ts";
import {
  type Brought,
  CHAIN_MAX,
  type Chain,
  type Coded,
  codedOf,
  type Entry,
  entryOf,
  KnownSatellites,
  mayRun,
  usesVendor,
} from "./known_satellites.ts";
import { checkConfiguration, checkRegistration } from "./registration.ts";
import {
  type ConfiguredSatellite,
  type HostedSatellite,
  idOf,
  type OtherSatellites,
  otherSatellites,
  readSatellites,
  removeSatellite,
  type SatelliteStore,
  type StoredSatellite,
  writeSatellite,
} from "./satellite_records.ts";
import { verifyHosted } from "./verification.ts";
import { viewOf } from "./views.ts";

const SATELLITES_MAX = 100;

export interface CatalogueOptions extends Brought, SatelliteStore {
  readonly clock: Clock;
  /** For verification. */
  readonly http: GuardedHttp;
  /** Whether a key is active and has the beta flag now. Default: what the caller was when it submitted. */
  readonly isBetaKey?: ((keyId: string) => boolean | Promise<boolean>) | undefined;
  /** Satellites of projects whose store has another owner. Default: this store has all. */
  readonly others?: OtherSatellites | undefined;
  /** Receives changes that happen beside a call and could not be stored. */
  readonly onFault?: ((error: unknown) => void) | undefined;
}

/** Throws `usage` for satellites of one name, or of an invalid project, `store_damaged` for what the vault does not open. */
export async function openCatalogue(options: CatalogueOptions): Promise<Catalogue & Registry> {
  return new StoredCatalogue(options, await readSatellites(options));
}

class StoredCatalogue implements Catalogue, Registry {
  readonly #options: CatalogueOptions;
  readonly #known: KnownSatellites;
  /** What was read of others last. */
  #others: readonly StoredRecord[] = [];
  /** The last change that was requested. */
  #changed: Promise<unknown> = Promise.resolve();

  constructor(options: CatalogueOptions, stored: readonly StoredSatellite[]) {
    this.#options = options;
    this.#known = new KnownSatellites(codedOf(options), stored, (seen) => {
      this.#fallBack(seen).catch((error: unknown) => options.onFault?.(error));
    });
  }

  async resolve(caller: ExecutionCaller, reference: SatelliteReference): Promise<ResolvedSatellite> {
    const { entries, satellite, fixedConfig } = await this.#usable(caller, reference);
    const kind = entries[0]?.kind ?? "custom";
    return { reference, kind, satellite, fixedConfig };
  }

  async describe(caller: ExecutionCaller, reference: SatelliteReference): Promise<SatelliteView> {
    const chain = await this.#usable(caller, reference);
    return this.#known.view(chain, reference.namespace === caller.project);
  }

  async list(
    caller: ExecutionCaller,
    query: PageQuery & { readonly namespace?: string },
  ): Promise<Page<SatelliteView>> {
    await this.#readOthers();
    const isBeta = await this.#isBeta(caller);
    const isFor = (chain: Chain): boolean => isBeta || !usesVendor(chain);
    return this.#page(query, (entry) => {
      const chain = mayRun(caller.project, entry) ? this.#known.chain(caller.project, entry) : undefined;
      return chain !== undefined && isFor(chain)
        ? this.#known.view(chain, entry.reference.namespace === caller.project)
        : undefined;
    });
  }

  async all(query: PageQuery & { readonly namespace?: string }): Promise<Page<SatelliteView>> {
    await this.#readOthers();
    return this.#page(query, (entry) => this.#known.operatorView(entry));
  }

  register(
    project: string,
    registration: Registration,
  ): Promise<{ readonly view: SatelliteView; readonly secret?: string }> {
    const { described, kind, url, isSecretRenewed } = registration;
    const reference = { namespace: project, name: described.name };
    return this.#serially(async () => {
      checkRegistration(registration, this.#options.http.egress);
      const before = this.#replaced(reference, ["custom", "community"]) as HostedSatellite | undefined; // by its kind
      const isNew = before === undefined || isSecretRenewed === true;
      const secret = isNew ? newOrbitSecret() : before.secret;
      const isSame =
        before?.kind === kind &&
        before.url === url &&
        descriptionHash(before.described) === descriptionHash(described);
      const stored: HostedSatellite = isSame
        ? { ...before, secret }
        : {
            ...{ reference, kind, url, secret, described },
            createdWallMs: before?.createdWallMs ?? this.#options.clock.wallMs(),
            ...(before?.state === "disabled"
              ? { state: "disabled", stateBefore: "registered" }
              : { state: "registered" }),
          };
      await this.#write(stored);
      const view = viewOf(stored, described, url);
      return isNew ? { view, secret } : { view };
    });
  }

  configure(caller: ExecutionCaller, name: string, wanted: Configuration): Promise<SatelliteView> {
    const { base, config, description } = wanted;
    const reference = { namespace: caller.project, name };
    return this.#serially(async () => {
      const before = this.#replaced(reference, ["configured"]);
      const chain = await this.#usable(caller, base);
      if (chain.entries.some((entry) => idOf(entry.reference) === idOf(reference)))
        throw fieldFault("base", "it would be based on itself");
      if (chain.entries.length >= CHAIN_MAX)
        throw fieldFault("base", `a satellite is based on at most ${CHAIN_MAX} others`);
      await checkConfiguration(config, { ...chain, configSchema: chain.described().configSchema });
      const stored: ConfiguredSatellite = {
        ...{ kind: "configured", reference, base, config, description },
        createdWallMs: before?.createdWallMs ?? this.#options.clock.wallMs(),
        state: before?.state ?? "registered",
        stateBefore: before?.stateBefore,
      };
      await this.#write(stored);
      return this.#known.operatorView(entryOf(stored)) as SatelliteView; // its chain was walked above
    });
  }

  remove(project: string, name: string): Promise<void> {
    const reference = { namespace: project, name };
    return this.#serially(async () => {
      if (this.#known.isCoded(reference)) throw new PerigeeError("conflict", "it is part of the program");
      if (this.#known.stored(reference) === undefined) throw noSatellite();
      await removeSatellite(this.#options.store, reference);
      this.#known.delete(reference);
    });
  }

  async verify(reference: SatelliteReference): Promise<SatelliteView> {
    const before = this.#community(reference);
    const hash = await verifyHosted(before, this.#options.clock, this.#options.http).catch(
      async (error: unknown) => {
        if (error instanceof PerigeeError && error.details["isChanged"] === true)
          await this.#fallBack(before);
        throw error;
      },
    );
    return this.#serially(async () => {
      if (this.#community(reference) !== before)
        throw new PerigeeError("conflict", "it was changed meanwhile: verify it again");
      const state = before.state === "approved" ? "approved" : "verified";
      return await this.#put({ ...before, state, verifiedHash: hash });
    });
  }

  approve(reference: SatelliteReference): Promise<SatelliteView> {
    return this.#serially(async () => {
      const before = this.#community(reference);
      if (before.state === "registered") throw new PerigeeError("conflict", "it is not verified yet");
      return await this.#put({ ...before, state: "approved" });
    });
  }

  disable(reference: SatelliteReference): Promise<SatelliteView> {
    return this.#serially(async () => {
      const before = this.#there(reference);
      if (before.state === "disabled") return this.#known.operatorView(before) as SatelliteView; // it exists
      const stored = "stored" in before ? before.stored : markOf(before.coded, this.#options.clock);
      return await this.#put({ ...stored, state: "disabled", stateBefore: before.state });
    });
  }

  enable(reference: SatelliteReference): Promise<SatelliteView> {
    return this.#serially(async () => {
      const before = this.#known.stored(reference);
      if (before?.state !== "disabled")
        return this.#known.operatorView(this.#there(reference)) as SatelliteView; // it exists
      return await this.#put({
        ...before,
        state: before.stateBefore ?? "registered",
        stateBefore: undefined,
      });
    });
  }

  /** What runs, when this caller may run it now. */
  async #usable(caller: ExecutionCaller, reference: SatelliteReference): Promise<Chain> {
    await this.#readOthers();
    const entry = this.#known.entry(idOf(reference));
    const chain =
      entry !== undefined && mayRun(caller.project, entry)
        ? this.#known.chain(caller.project, entry)
        : undefined;
    if (chain === undefined) throw noSatellite();
    if (usesVendor(chain) && !(await this.#isBeta(caller)))
      throw new PerigeeError("forbidden", "satellites of perigee need a key with the beta flag");
    return chain;
  }

  async #readOthers(): Promise<void> {
    const records = await this.#options.others?.read();
    if (records === undefined || records === this.#others) return;
    this.#others = records;
    this.#known.putOthers(otherSatellites(records, this.#options.vault));
  }

  async #isBeta({ keyId, isBeta }: ExecutionCaller): Promise<boolean> {
    if (keyId === undefined) return true;
    const { isBetaKey } = this.#options;
    return isBetaKey === undefined ? isBeta : await isBetaKey(keyId);
  }

  #there(reference: SatelliteReference): Entry {
    const entry = this.#known.entry(idOf(reference));
    if (entry === undefined) throw noSatellite();
    return entry;
  }

  #community(reference: SatelliteReference): HostedSatellite {
    const entry = this.#there(reference);
    if (entry.kind !== "community" || "coded" in entry || entry.stored.kind !== "community")
      throw new PerigeeError(
        "conflict",
        `it is a ${entry.kind} satellite: those of communities are approved`,
      );
    if (entry.state === "disabled") throw new PerigeeError("conflict", "it is disabled");
    return entry.stored;
  }

  /** What exists already, of one of the kinds; throws `conflict` for another, `too_many` for one too many. */
  #replaced(reference: SatelliteReference, kinds: readonly string[]): StoredSatellite | undefined {
    const { namespace, name } = reference;
    if (!NAME.test(name) || !NAME.test(namespace) || namespace === VENDOR_NAMESPACE) throw noSatellite();
    if (this.#known.isCoded(reference)) throw new PerigeeError("conflict", "it is part of the program");
    const before = this.#known.stored(reference);
    if (before !== undefined && before.kind !== "trusted" && !kinds.includes(before.kind))
      throw new PerigeeError("conflict", `there is a ${before.kind} satellite of this name: remove it first`);
    if (before === undefined && this.#known.storedOf(namespace) >= SATELLITES_MAX)
      throw new PerigeeError("too_many", `a project has at most ${SATELLITES_MAX} satellites`);
    return before?.kind === "trusted" ? undefined : before;
  }

  /** A community satellite that is not what was verified is as one that was just registered. */
  #fallBack(seen: HostedSatellite): Promise<void> {
    return this.#serially(async () => {
      const now = this.#known.stored(seen.reference);
      if (now !== seen || !["verified", "approved"].includes(seen.state)) return;
      await this.#write({ ...seen, state: "registered", verifiedHash: undefined });
    });
  }

  async #put(stored: StoredSatellite): Promise<SatelliteView> {
    await this.#write(stored);
    return this.#known.operatorView(this.#there(stored.reference)) as SatelliteView; // written just now
  }

  async #write(stored: StoredSatellite): Promise<void> {
    await writeSatellite(this.#options, stored);
    this.#known.put(stored);
  }

  #serially<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#changed.then(work);
    this.#changed = result.catch(() => undefined);
    return result;
  }

  /** In the order of `namespace/name`. */
  #page(
    { after, limit, namespace }: PageQuery & { readonly namespace?: string },
    show: (entry: Entry) => SatelliteView | undefined,
  ): Page<SatelliteView> {
    const found: SatelliteView[] = [];
    let isBehind = after === undefined;
    for (const id of this.#known.ids()) {
      const entry = this.#known.entry(id);
      if (entry === undefined || (namespace ?? entry.reference.namespace) !== entry.reference.namespace)
        continue;
      const view = isBehind || id === after ? show(entry) : undefined;
      if (view === undefined) continue;
      if (isBehind) found.push(view);
      isBehind = true;
      if (found.length > limit) break;
    }
    if (!isBehind) throw noSatellite();
    return { items: found.slice(0, limit), hasMore: found.length > limit };
  }
}

/** What is stored of one that the program brings, once it is disabled. */
function markOf({ reference, kind }: Coded, clock: Clock): StoredSatellite {
  const mark = { reference, createdWallMs: clock.wallMs(), state: "disabled" } as const;
  return { ...mark, kind: kind === "vendor" ? "vendor" : "trusted" };
}
