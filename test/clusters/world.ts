/**
 * Clusters on virtual time and a store that can crash, over executions that end as a test says.
 */
import type { Clock } from "../../src/clock.ts";
import type { Clusters, ClusterView, MemberView } from "../../src/clusters/cluster.ts";
import { openClusters } from "../../src/clusters/clusters.ts";
import { PerigeeError } from "../../src/errors.ts";
import type { Store } from "../../src/store/store.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { createCrashableStore, FakeClock } from "../../src/testing/index.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { mortal } from "../engine/world.ts";
import { type Answering, FakeExecutions, type FakeLedger, ledger } from "./fake_executions.ts";
import { ONE, resolver } from "./satellites.ts";

export interface OpenedClusters {
  readonly clusters: Clusters;
  readonly executions: FakeExecutions;
  readonly store: Store;
}

export class ClusterWorld {
  readonly clock = new FakeClock();
  readonly store: ReturnType<typeof createCrashableStore>;
  readonly ledger: FakeLedger;
  readonly faults: unknown[] = [];
  readonly files = new FakeFiles();
  #life: { kill(): void } | undefined;

  constructor(
    answer: Answering = () => ({}),
    options: { readonly commitMs?: number; readonly random?: () => number } = {},
  ) {
    const { commitMs, random } = options;
    this.ledger = ledger(answer);
    this.store = createCrashableStore({
      ...(commitMs === undefined ? {} : { clock: this.clock, commitMs }),
      ...(random === undefined ? {} : { random }),
    });
  }

  /** A process; the one before must have been killed or closed. */
  async open(): Promise<OpenedClusters> {
    const life = mortal(this.clock);
    this.#life = life;
    return this.#openOn(life.clock);
  }

  /** The process dies now, in the middle of its work. */
  kill(): void {
    this.#life?.kill();
    this.store.crash();
  }

  async #openOn(clock: Clock): Promise<OpenedClusters> {
    const store = await this.store.open();
    const executions = new FakeExecutions(clock, store, this.ledger);
    await executions.resume();
    const options = { clock, store, executions, resolver, files: this.files };
    const clusters = await openClusters({ ...options, onFault: (error) => this.faults.push(error) });
    return { clusters, executions, store };
  }
}

/** Files in memory, given in small pieces; how many are held, and how often one was opened. */
export class FakeFiles implements Pick<Files, "read" | "hold"> {
  readonly texts = new Map<string, string>();
  held = 0;
  opened = 0;

  async *read(_project: string, id: string): AsyncGenerator<Uint8Array, void, undefined> {
    const text = this.texts.get(id);
    if (text === undefined) throw new PerigeeError("not_found", "no such file");
    this.opened += 1;
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
  }

  hold(_id: string): () => void {
    this.held += 1;
    return () => {
      this.held -= 1;
    };
  }
}

/** A declaration of members that may do anything. */
export function declared(members: readonly object[], top: object = {}): JsonObject {
  const satellites = members.map((member) => ({ uses: "satellite/perigee/anything", ...member }));
  return JSON.parse(JSON.stringify({ sla: "1h", ...top, cluster: { satellites } })) as JsonObject;
}

/** Runs a declaration to its end. */
export async function ran(
  world: ClusterWorld,
  members: readonly object[],
  given: { readonly top?: object; readonly input?: JsonObject } = {},
): Promise<ClusterView> {
  const { clusters } = await world.open();
  const { id } = await world.clock.runUntilSettled(
    clusters.submit(ONE, {
      declaration: declared(members, given.top),
      ...(given.input === undefined ? {} : { input: given.input }),
    }),
  );
  return await finished(world, clusters, id);
}

/** Lets time pass until the run is final. */
export async function finished(world: ClusterWorld, clusters: Clusters, id: string): Promise<ClusterView> {
  let idle = 0;
  for (let step = 0; step < 100_000; step += 1) {
    const view = await world.clock.runUntilSettled(clusters.cluster(ONE.project, id));
    if (view.status !== "pending") return view;
    // What was read may be older than the last timer, so it is read once more.
    idle = (await world.clock.advanceToNextTimer()) ? 0 : idle + 1;
    if (idle > 1) throw new Error(`stuck: ${JSON.stringify(view.members)}`);
  }
  throw new Error("not over in time");
}

/** Status by identifier. */
export function statuses({ members }: ClusterView): Record<string, string> {
  return Object.fromEntries(members.map(({ identifier, status }) => [identifier, status]));
}

export function memberOf({ members }: ClusterView, identifier: string): MemberView {
  const found = members.find((member) => member.identifier === identifier);
  if (found === undefined) throw new Error(`no member ${identifier}`);
  return found;
}
