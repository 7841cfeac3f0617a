/**
 * The endpoints of projects: where their webhooks go. States in `webhook_records.ts`.
 *
 * Read once for each project and kept, since every task that ends asks for them; all changes go through here, one after
 * another within a project.
 *
 * Their secrets are encrypted on the disk; those that were stored before that are, at the start.
 *
 * Limits: 20 endpoints a project; a secret that was replaced signs for 24 h more.
 */

import { randomUUID } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { Egress } from "../../egress/egress.ts";
import { newSecret } from "../../egress/webhook_signature.ts";
import { PerigeeError } from "../../errors.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { everyRecord, type Vault } from "../../satellites/secrets/vault.ts";
import type { RecordStore } from "../../store/records.ts";
import {
  ENDPOINTS,
  type Endpoint,
  type EventType,
  endpointToRecord,
  recordToEndpoint,
  type Secret,
} from "./webhook_records.ts";

export interface EndpointSettings {
  readonly url: string;
  readonly events: readonly EventType[];
  readonly description: string;
}

/** What is left out stays. */
export interface EndpointChange extends Partial<EndpointSettings> {
  readonly isEnabled?: boolean;
}

const ENDPOINTS_MAX = 20;
const OLD_SECRET_MS = 86_400_000;

type EndpointMap = Map<string, Endpoint>;

/** One for a store. Changes of one project go one after the other. */
export class WebhookEndpoints {
  readonly #clock: Clock;
  readonly #store: RecordStore;
  readonly #egress: Pick<Egress, "check">;
  readonly #vault: Vault;
  readonly #projects = new Map<string, Promise<EndpointMap>>();
  /** By project. */
  readonly #changes = new KeyedMutex();

  constructor(clock: Clock, store: RecordStore, egress: Pick<Egress, "check">, vault: Vault) {
    this.#clock = clock;
    this.#store = store;
    this.#egress = egress;
    this.#vault = vault;
  }

  /** In the order of their making. */
  async list(project: string): Promise<readonly Endpoint[]> {
    return [...(await this.#of(project)).values()];
  }

  /** Undefined when the project does not have it. */
  async find(project: string, id: string): Promise<Endpoint | undefined> {
    return (await this.#of(project)).get(id);
  }

  /** Throws `not_found`. */
  async get(project: string, id: string): Promise<Endpoint> {
    const endpoint = await this.find(project, id);
    if (endpoint === undefined) throw new PerigeeError("not_found", "no such webhook");
    return endpoint;
  }

  /** Throws `blocked_destination`, and `too_many` beyond the limit. */
  create(project: string, settings: EndpointSettings): Promise<Endpoint> {
    return this.#serially(project, async (endpoints) => {
      this.#checkUrl(settings.url);
      if (endpoints.size >= ENDPOINTS_MAX)
        throw new PerigeeError("too_many", `a project has at most ${ENDPOINTS_MAX} webhooks`);
      const endpoint: Endpoint = {
        id: randomUUID(),
        project,
        createdWallMs: this.#clock.wallMs(),
        ...settings,
        disabled: null,
        secrets: [{ text: newSecret() }],
      };
      return await this.#put(endpoints, endpoint);
    });
  }

  /** Throws `not_found` and `blocked_destination`. Enabling forgets past failures. */
  change(project: string, id: string, { isEnabled, ...settings }: EndpointChange): Promise<Endpoint> {
    return this.#update(project, id, (endpoint) => {
      if (settings.url !== undefined) this.#checkUrl(settings.url);
      const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
      const changed: Endpoint = { ...endpoint, ...given };
      if (isEnabled === undefined) return changed;
      return isEnabled ? withoutFailures({ ...changed, disabled: null }) : { ...changed, disabled: "manual" };
    });
  }

  /** A new secret signs from now on; the one before it signs too, for a day. */
  rotate(project: string, id: string): Promise<Endpoint> {
    return this.#update(project, id, (endpoint) => {
      const expiresWallMs = this.#clock.wallMs() + OLD_SECRET_MS;
      const old = endpoint.secrets.slice(0, 1).map(({ text }): Secret => ({ text, expiresWallMs }));
      return { ...endpoint, secrets: [{ text: newSecret() }, ...old] };
    });
  }

  /** Removes it; `WebhookDeliveries.removeEndpoint` removes its deliveries too. Throws `not_found`. */
  remove(project: string, id: string): Promise<void> {
    return this.#serially(project, async (endpoints) => {
      const endpoint = endpoints.get(id);
      if (endpoint === undefined) throw new PerigeeError("not_found", "no such webhook");
      endpoints.delete(id); // first, so that no attempt under way writes after the removal
      try {
        await this.#store.change([{ kind: "delete", collection: ENDPOINTS, id }]);
      } catch (error) {
        endpoints.set(id, endpoint);
        throw error;
      }
    });
  }

  /** What an attempt teaches; writes only what changes. Nothing when it was removed meanwhile. */
  async note(project: string, id: string, change: (endpoint: Endpoint) => Endpoint): Promise<void> {
    const endpoint = await this.find(project, id);
    if (endpoint === undefined || change(endpoint) === endpoint) return;
    await this.#serially(project, async (endpoints) => {
      const current = endpoints.get(id);
      const changed = current === undefined ? undefined : change(current);
      if (changed !== undefined && changed !== current) await this.#put(endpoints, changed);
    });
  }

  #update(project: string, id: string, change: (endpoint: Endpoint) => Endpoint): Promise<Endpoint> {
    return this.#serially(project, async (endpoints) => {
      const endpoint = endpoints.get(id);
      if (endpoint === undefined) throw new PerigeeError("not_found", "no such webhook");
      return await this.#put(endpoints, change(endpoint));
    });
  }

  async #put(endpoints: EndpointMap, endpoint: Endpoint): Promise<Endpoint> {
    await this.#store.change([{ kind: "put", record: endpointToRecord(endpoint, this.#vault) }]);
    endpoints.set(endpoint.id, endpoint);
    return endpoint;
  }

  #serially<T>(project: string, work: (endpoints: EndpointMap) => Promise<T>): Promise<T> {
    return this.#changes.take(project, async () => work(await this.#of(project)));
  }

  #of(project: string): Promise<EndpointMap> {
    let endpoints = this.#projects.get(project);
    if (endpoints === undefined) {
      endpoints = this.#read(project);
      endpoints.catch(() => this.#projects.delete(project));
      this.#projects.set(project, endpoints);
    }
    return endpoints;
  }

  async #read(project: string): Promise<EndpointMap> {
    const query = { collection: ENDPOINTS, limit: ENDPOINTS_MAX };
    const records = await this.#store.records(project, query);
    return new Map(records.map((record) => [record.id, recordToEndpoint(record, this.#vault)]));
  }

  #checkUrl(url: string): void {
    const checked = this.#egress.check(url);
    if (!checked.ok)
      throw new PerigeeError("blocked_destination", checked.message, { details: { param: "url" } });
  }
}

/** Encrypts the secrets of endpoints that were stored in the clear. */
export async function sealEndpoints(store: RecordStore, vault: Vault): Promise<void> {
  for await (const record of everyRecord(store, ENDPOINTS)) {
    if (record.payload !== undefined) continue;
    const sealed = endpointToRecord(recordToEndpoint(record, vault), vault);
    await store.change([{ kind: "put", record: sealed }]);
  }
}

/** As it is after an attempt that was taken. */
export function withoutFailures(endpoint: Endpoint): Endpoint {
  if (endpoint.failingSinceWallMs === undefined) return endpoint;
  const { failingSinceWallMs: _since, ...rest } = endpoint;
  return rest;
}
