/**
 * A worker of a fleet: a process that answers callers, owns partitions, or both.
 *
 *   entering (database, keys, ports) -> working -> leaving (releases its partitions) -> left
 *
 * Every second it renews its lease, reads the fleet, and does what `placement.ts` says.
 */
import assert from "node:assert";
import { randomUUID } from "node:crypto";
import { systemClock } from "../clock.ts";
import type { LimitPool } from "../limits/shared/limit_pool.ts";
import { createKeyVerifier } from "../service/http/key_verifier.ts";
import type { FleetState } from "../service/operate/fleet_state.ts";
import { openMetricsPort } from "../service/operate/metrics_routes.ts";
import { type Handover, openPerigeeService, packageVersion } from "../service/perigee_service.ts";
import { PgAudit } from "../store/audit/pg_audit.ts";
import { hashApiKey } from "../store/keys/api_key.ts";
import { PgKeyStore } from "../store/keys/pg_key_store.ts";
import { openObjects } from "../store/objects/open_objects.ts";
import { PgClock } from "../store/postgres/pg_clock.ts";
import type { PgQuery } from "../store/postgres/pg_session.ts";
import { openPostgresStore } from "../store/postgres/postgres.ts";
import { FleetDirectory } from "./directory.ts";
import { FleetAccess, type FleetKeys } from "./fleet_access.ts";
import { FleetDatabase } from "./fleet_database.ts";
import { FleetMetrics } from "./fleet_metrics.ts";
import { Forwarding } from "./forwarding.ts";
import { Hops } from "./hops/hops.ts";
import { inTime } from "./in_time.ts";
import { Membership } from "./membership.ts";
import { claimObjects } from "./objects_owner.ts";
import { type OpenedPartition, OwnedPartitions } from "./owned_partitions.ts";
import { openPartitionFiles } from "./partition_files.ts";
import { type FleetPort, openPrivatePort, openPublicPort } from "./ports.ts";
import { ProjectHomes } from "./project_homes.ts";
import { FleetRouter } from "./router.ts";
import { claimSecretsKey } from "./secrets_claim.ts";
import { ShardRows } from "./shards/shard_rows.ts";
import { ShardSeats, ShardWork } from "./shards/shard_work.ts";
import { Gathering } from "./shared/gathered.ts";
import { PgOtherSatellites } from "./shared/other_satellites.ts";
import { PgCapPool } from "./shared/pg_cap_pool.ts";
import { PgLearnt } from "./shared/pg_learnt.ts";
import { PgLimitPool } from "./shared/pg_limit_pool.ts";
import { SharedMeasurer } from "./shared/shared_measurer.ts";
import { checkedPlace, type FleetPlace, type FleetWorkerOptions, loneNotice } from "./worker_options.ts";
import { readFleet, WorkerRows } from "./worker_rows.ts";

/** How long the last writes wait for the database, which may be away. */
const LAST_WORDS_MS = 1_000;

/** A worker that runs. */
export interface FleetWorker {
  /** Where callers reach it; the private address where it has no public port. */
  readonly url: string;
  /** Releases its partitions and leaves, within 10 s while the database answers. May be called twice. */
  close(): Promise<void>;
}

/** Enters the fleet and works. Throws `usage` and `invalid_config` for its options, `store_failed` when the database does not answer. */
export async function openFleetWorker(options: FleetWorkerOptions): Promise<FleetWorker> {
  const place = await checkedPlace(options);
  const time = new PgClock(options.clock ?? systemClock);
  const notice = (message: string): void => options.onNotice?.(message);
  const lone = loneNotice(place);
  if (lone !== undefined) notice(lone);
  const database = await FleetDatabase.open(place.store, time.clock);
  const closers: (() => unknown)[] = [() => database.close()];
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    for (const step of closers.splice(0).reverse()) await step();
  };
  try {
    const url = await enter(options, { place, time, database, notice }, closers);
    return {
      url,
      close: () => {
        closing ??= close();
        return closing;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

interface Entering {
  readonly place: FleetPlace;
  /** Whose clock everything in the worker uses: what one worker accepts, another one continues. */
  readonly time: PgClock;
  readonly database: FleetDatabase;
  readonly notice: (message: string) => void;
}

/** Opens everything in this order; `closers` are called in the opposite one. Resolves with the worker's address. */
async function enter(
  options: FleetWorkerOptions,
  { place, time, database, notice }: Entering,
  closers: (() => unknown)[],
): Promise<string> {
  const { query } = database;
  const { clock } = time;
  const id = `${place.name}/${randomUUID().slice(0, 8)}`;
  const { keys, store: keyStore } = await openKeys(database, clock);
  closers.push(() => inTime(clock, LAST_WORDS_MS, keyStore.close()));
  const audit = new PgAudit(query, clock, id);
  closers.push(() => inTime(clock, LAST_WORDS_MS, audit.close()));
  const access = new FleetAccess(keys);
  const pool = new PgLimitPool(place.store);
  const caps = new PgCapPool(place.store);
  closers.push(() => {
    pool.close();
    caps.close();
  });
  const measurer = new SharedMeasurer();
  closers.push(() => measurer.close());
  const secret = await database.secret();
  await claimPlace(options, { place, time, database });
  const hops = new Hops(clock, secret);
  closers.push(() => hops.close());
  const directory = new FleetDirectory(clock, () => readFleet(query));
  const fleet = (): FleetState => directory.stateFor(id);
  const metrics = new FleetMetrics(fleet, options.metricsPort !== undefined);
  const limitPool = metrics.counting(pool);
  let publicUrl = options.publicUrl;
  const shards = { query, seats: new ShardSeats(), notice };
  const owned = new OwnedPartitions({
    ...{ clock, onNotice: notice, onChange: () => membership?.soon() },
    open: (part) => {
      const { verifier } = keys;
      const shared = { verifier, limitPool, caps, measurer, audit, fleet, metrics, shards };
      return openPartition({ ...options, clock }, { place, part, id, publicUrl, ...shared });
    },
  });
  let membership: Membership | undefined;
  const privateAt = { host: place.privateHost, port: place.privatePort };
  const inner = await openPrivatePort(clock, { ...privateAt, secret, access, directory, local: owned });
  let outer: FleetPort | undefined;
  closers.push(() => Promise.all([inner.close(), outer?.close()]));
  const entry = { id, name: place.name, role: place.role, address: inner.address, version: packageVersion() };
  const rows = new WorkerRows(query, entry, time);
  membership = new Membership({ clock, rows, directory, owned, role: place.role, onNotice: notice });
  const router = new FleetRouter({
    ...{ clock, directory, access, local: owned },
    forwarding: new Forwarding(clock, hops),
    gathering: new Gathering({ clock, directory, hops }),
    homes: new ProjectHomes(query),
    metrics: (request, response) => void metrics.answer(request, response).catch(() => response.destroy()),
    isBehindProxy: options.isBehindProxy === true,
  });
  if (place.role !== "worker") {
    const limits = options.serverLimits;
    outer = await openPublicPort(clock, router.handle, { host: place.host, port: place.port, limits });
    publicUrl ??= outer.address;
  }
  if (options.metricsPort !== undefined) {
    const host = place.role === "worker" ? place.privateHost : place.host;
    const port = await openMetricsPort(metrics, { host, port: options.metricsPort });
    closers.push(() => port.close());
  }
  await membership.enter();
  closers.push(() => membership.leave());
  await audit.sweep();
  return outer?.address ?? inner.address;
}

async function claimPlace(
  { env = process.env }: FleetWorkerOptions,
  { place, time, database }: Omit<Entering, "notice">,
): Promise<void> {
  await claimSecretsKey(place.secretsKeyId, database);
  const objects = await openObjects({ url: place.objects, env, clock: time.clock });
  try {
    await claimObjects(objects, { url: place.objects, database });
  } finally {
    await objects.close();
  }
}

async function openKeys(
  { query }: FleetDatabase,
  clock: PgClock["clock"],
): Promise<{ readonly keys: FleetKeys; readonly store: PgKeyStore }> {
  const store = new PgKeyStore(query, clock);
  await store.follow();
  const verifier = createKeyVerifier(store);
  return {
    store,
    keys: { verifier, look: () => store.look(), isForm: (text) => hashApiKey(text) !== undefined },
  };
}

interface PartitionPlace extends Pick<FleetKeys, "verifier"> {
  readonly place: FleetPlace;
  readonly part: number;
  /** Of the worker. */
  readonly id: string;
  readonly publicUrl: string | undefined;
  readonly limitPool: LimitPool;
  readonly caps: PgCapPool;
  readonly measurer: SharedMeasurer;
  readonly audit: PgAudit;
  readonly fleet: () => FleetState;
  readonly metrics: FleetMetrics;
  readonly shards: ShardPlace;
}

/** What the work on shards needs of the worker. */
interface ShardPlace {
  readonly query: PgQuery;
  readonly seats: ShardSeats;
  readonly notice: (message: string) => void;
}

async function openPartition(
  { fleet: _fleet, onNotice, metricsPort: _metricsPort, ...options }: FleetWorkerOptions,
  {
    place,
    part,
    id,
    publicUrl,
    verifier,
    limitPool,
    caps,
    measurer,
    audit,
    fleet,
    metrics,
    shards,
  }: PartitionPlace,
): Promise<OpenedPartition> {
  const { clock = systemClock, env = process.env } = options;
  const store = await openPostgresStore({ url: place.store, part, owner: id });
  try {
    const files = await openPartitionFiles({ ...{ store, part, clock, env }, objects: place.objects });
    const rows = await ShardRows.open(shards.query, part, id);
    const received: { handover?: Handover } = {};
    const service = await openPerigeeService(
      {
        ...{ ...options, store, verifier, limitPool, disk: files.disk, dataDir: files.dataDir },
        capPool: caps.of(part, rows.epoch),
        ...said({ log: options.log, onNotice }, place.name, part),
        stateDir: false, // rows of the database
        isBehindProxy: true, // the router says whose request it is
        ...(publicUrl === undefined ? {} : { publicUrl }),
      },
      {
        ...{ audit, fleet, measurerFrom: measurer.lend },
        ...(options.stateDir === false ? {} : { learntRows: new PgLearnt(shards.query, clock) }),
        otherSatellites: new PgOtherSatellites(shards.query, part),
        onMetrics: (render) => metrics.add(part, render),
        onHandover: (given) => {
          received.handover = given;
        },
        beside: (opened) => {
          const work = new ShardWork({
            clock,
            rows,
            opened,
            objects: files.objects,
            seats: shards.seats,
            onNotice: shards.notice,
          });
          work.start();
          return work;
        },
      },
    );
    const close = (): Promise<void> => {
      metrics.remove(part);
      return store.close();
    };
    const { handover } = received;
    assert(handover !== undefined, "a service hands over how its work ends before it is open");
    return { service, handover, store: { close }, closeFiles: () => files.close() };
  } catch (error) {
    metrics.remove(part);
    await store.close().catch(() => undefined);
    throw error;
  }
}

type Outlets = { readonly [name in "log" | "onNotice"]: FleetWorkerOptions[name] | undefined };

/** The log or the notices of a partition: each line of its log begins with the worker and the partition, and contains the notices. */
function said(
  { log, onNotice }: Outlets,
  worker: string,
  partition: number,
): Pick<FleetWorkerOptions, "log" | "onNotice"> {
  if (log === undefined) return onNotice === undefined ? {} : { onNotice };
  const start = `${JSON.stringify({ worker, partition }).slice(0, -1)},`;
  return { log: { ...log, write: (lines) => log.write(lines.replaceAll(/^\{/gm, start)) } };
}
