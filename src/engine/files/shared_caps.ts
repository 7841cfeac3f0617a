/**
 * Caps on spending that several runs of one data folder share, by name.
 *
 *   joined (durable before anything is sent) -> counted while the run works -> left: what it spent stays counted
 *
 * Each run that has joined a cap has a record. What each run has cost is kept with the run, and is read when the cap is
 * first joined in a process: the summary of a finished run, the last step of any other's journal, which after a kill
 * counts what was under way. The cost of a forgotten task is copied into its record, and added to the one record of all forgotten tasks when
 * its rows are deleted.
 *
 * Where several engines share caps (`capPool`), each is counted here as far as it is this engine's, and draws its money (`limits/cap_draws.ts`).
 *
 * The amount is that of the last call. Limits: names of 1 to 64 letters, digits, `.`, `_`, `:` and `-`.
 */

import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { type Budget, Cap } from "../../price/budget.ts";
import type { CapPool } from "../../price/shared/cap_pool.ts";
import { DrawnMoney } from "../../price/shared/drawn_money.ts";
import type { RecordChange, StoredRecord } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { CHECKED_LATER, checkCallOptions, type OptionSchema } from "../call_options.ts";
import { readStep } from "../journal/journal.ts";
import type { Sending } from "../lanes/sending.ts";
import { CapDraws } from "../limits/cap_draws.ts";
import type { Seams } from "../seams.ts";
import type { CapTerms } from "./cap_terms.ts";
import { decodeBody } from "./task_body.ts";

const CAP_OPTIONS: OptionSchema<CapTerms> = { name: CHECKED_LATER, usd: CHECKED_LATER };
/** By the cap's name. */
const MEMBERS = "cap_member";
/** By the task's id. */
const CAPS_OF_TASK = "task_cap";
/** In place of a task's id: all forgotten ones. */
const FORGOTTEN = "forgotten";
const PAGE = 100;
const PROJECT = "";

interface SharedCap {
  readonly cap: Cap;
  /** The cost of runs that are not at work, by their tasks' ids. */
  readonly left: Map<string, number>;
  /** The money that items of them need and that it held in this process, by their tasks' ids. */
  readonly wanted: Map<string, number>;
  /** Tasks that are known to have joined, durably. */
  readonly joined: Set<string>;
  /** Tasks that are at work. */
  readonly atWork: Set<string>;
  /** Undefined without a pool. */
  readonly draws: CapDraws | undefined;
}

/** What the caps of an engine need of it. */
export interface SharedCapsOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** A cap that all runs of the engine join. */
  readonly ofEngine: CapTerms | undefined;
  /** Where other engines draw from the same caps; undefined: they are this engine's own. */
  readonly pool: CapPool | undefined;
  /** Called when runs that a cap held may continue. */
  readonly onRaised: () => void;
  /** Called when money may have arrived for which items wait. */
  readonly onMoney: () => void;
}

/** Throws `usage` for a cap that cannot be; `where` names the call. */
export function checkCap(cap: CapTerms | undefined, where: string): void {
  if (cap === undefined) return;
  const given: Partial<CapTerms> | null = cap; // from programs without types, too
  if (typeof given?.name !== "string" || !/^[\w.:-]{1,64}$/.test(given.name))
    throw new PerigeeError(
      "usage",
      `${where}: cap must be { name, usd } with a name of 1 to 64 letters, digits, ".", "_", ":" and "-", got ${JSON.stringify(given)?.slice(0, 100)}`,
    );
  checkCallOptions(given, CAP_OPTIONS, `${where}: cap`);
  void new Cap(cap.usd, cap.name); // throws for an impossible amount
}

/** The caps of an engine; `ofEngine`: one that all its runs join. */
export function sharedCaps(
  { store, clock, capPool: pool }: Pick<Seams, "store" | "clock" | "capPool">,
  ofEngine: CapTerms | undefined,
  { holds, lanes }: Pick<Sending, "holds" | "lanes">,
): SharedCaps {
  return new SharedCaps({
    ...{ store, clock, ofEngine, pool },
    onRaised: () => holds.wake("cap_reached"),
    onMoney: () => lanes.pumpAll(),
  });
}

/** One for an engine. */
export class SharedCaps {
  readonly #options: SharedCapsOptions;
  readonly #store: Store;
  readonly #caps = new Map<string, Promise<SharedCap>>();
  /** Folds, one at a time. */
  readonly #folding = new KeyedMutex();
  readonly #draws = new Set<CapDraws>();

  constructor(options: SharedCapsOptions) {
    this.#options = options;
    this.#store = options.store;
  }

  /** Ends the draws. */
  close(): void {
    for (const draws of this.#draws) draws.close();
  }

  /** The caps of a run that names this one: its own and the engine's. */
  termsOf(cap: CapTerms | undefined): readonly CapTerms[] {
    const terms = cap === undefined ? [] : [cap];
    const { ofEngine } = this.#options;
    return ofEngine === undefined || ofEngine.name === cap?.name ? terms : [...terms, ofEngine];
  }

  /**
   * Once it resolves, the run is known to have joined, in any process. It returns the cap for its budget, to be
   * called when that is made, in one turn: what the run has spent is counted by one or the other at every moment.
   */
  async join({ name, usd }: CapTerms, taskId: string): Promise<() => Cap> {
    const { cap, draws, left, wanted, joined, atWork } = await this.#shared(name);
    if (!joined.has(taskId)) await this.#store.change(memberChanges(name, taskId, {}));
    joined.add(taskId);
    await this.limit({ name, usd });
    return () => {
      atWork.add(taskId);
      cap.forget(left.get(taskId) ?? 0);
      left.delete(taskId);
      cap.want(-(wanted.get(taskId) ?? 0));
      wanted.delete(taskId);
      draws?.soon(); // they may sleep again by now
      return cap;
    };
  }

  /** The cap has this amount from now on. */
  async limit({ name, usd }: CapTerms): Promise<void> {
    const { cap, draws } = await this.#shared(name);
    const beforeUsd = cap.capUsd;
    if (cap.limit(usd)) draws?.capChanged();
    else draws?.soon();
    if (cap.capUsd > beforeUsd) this.#options.onRaised();
  }

  /** The run is over in this process; its budget is closed. */
  async leave(name: string, taskId: string, budget: Budget): Promise<void> {
    const { left, wanted, atWork } = await this.#shared(name);
    atWork.delete(taskId);
    left.set(taskId, budget.committedUsd);
    wanted.set(taskId, budget.wantedUsd);
  }

  /** To be called before the rows of a task are deleted: its cost stays counted. */
  async keep(taskId: string): Promise<void> {
    let usd: number | undefined;
    for await (const { id } of this.#recordsOf(CAPS_OF_TASK, taskId)) {
      const name = id.slice(taskId.length + 1);
      usd ??= await this.#usdOf(taskId);
      await this.#store.change(memberChanges(name, taskId, { usd }));
      await this.#wantsNothing(name, taskId);
    }
  }

  /** A forgotten task is not found any more: the sum of all those keeps its cost, and it needs no record. */
  async fold(taskId: string): Promise<void> {
    await this.#folding.take("", async () => {
      for await (const { id } of this.#recordsOf(CAPS_OF_TASK, taskId)) {
        const name = id.slice(taskId.length + 1);
        const [own, sum] = [memberId(name, taskId), memberId(name, FORGOTTEN)];
        const usd = (await this.#keptUsd(own)) + (await this.#keptUsd(sum));
        await this.#store.change([
          memberChange(name, FORGOTTEN, { usd }),
          { kind: "delete", collection: MEMBERS, id: own },
          { kind: "delete", collection: CAPS_OF_TASK, id },
        ]);
        const { left, joined } = await this.#shared(name);
        left.delete(taskId); // its cap has counted it
        joined.delete(taskId);
      }
    });
  }

  async #keptUsd(id: string): Promise<number> {
    const record = await this.#store.record(PROJECT, MEMBERS, id);
    const { usd = 0 } = record === undefined ? {} : (JSON.parse(record.body) as { readonly usd?: number }); // written below
    return usd;
  }

  /** Nothing asks for what is held of a forgotten task. */
  async #wantsNothing(name: string, taskId: string): Promise<void> {
    const { cap, wanted } = await this.#shared(name);
    cap.want(-(wanted.get(taskId) ?? 0));
    wanted.delete(taskId);
  }

  #shared(name: string): Promise<SharedCap> {
    let shared = this.#caps.get(name);
    if (shared === undefined) {
      shared = this.#load(name);
      shared.catch(() => this.#caps.delete(name));
      this.#caps.set(name, shared);
    }
    return shared;
  }

  async #load(name: string): Promise<SharedCap> {
    const left = new Map<string, number>();
    const joined = new Set<string>();
    for await (const { id, body } of this.#recordsOf(MEMBERS, name)) {
      const taskId = id.slice(name.length + 1);
      const { usd } = JSON.parse(body) as { readonly usd?: number }; // written below
      left.set(taskId, usd ?? (await this.#usdOf(taskId)));
      if (usd === undefined) joined.add(taskId);
    }
    const atWork = new Set<string>();
    const { cap, draws } = this.#cap(name, () => atWork.size > 0);
    for (const usd of left.values()) cap.count(usd);
    return { cap, left, wanted: new Map(), joined, atWork, draws };
  }

  #cap(name: string, isNeeded: () => boolean): Pick<SharedCap, "cap" | "draws"> {
    const { clock, pool, onMoney: onAnswer, onRaised } = this.#options;
    if (pool === undefined) return { cap: new Cap(0, name), draws: undefined };
    const drawn = new DrawnMoney(pool, () => draws.soon());
    const cap = new Cap(0, name, drawn);
    const stored = async (): Promise<void> => {
      await this.#store.record(PROJECT, MEMBERS, "");
      await this.#store.record(PROJECT, MEMBERS, ""); // what was settled may have waited for the commit before
    };
    const draws = new CapDraws({ clock, pool, name, cap, isNeeded, stored, onAnswer, onRaised });
    this.#draws.add(draws);
    return { cap, draws };
  }

  /** All of them, a page at a time. */
  async *#recordsOf(collection: string, parent: string): AsyncGenerator<StoredRecord> {
    let after: string | undefined;
    for (;;) {
      const query = { collection, parent, limit: PAGE };
      const page = await this.#store.records(PROJECT, after === undefined ? query : { ...query, after });
      yield* page;
      after = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  /** Billed, in doubt or under way. */
  async #usdOf(taskId: string): Promise<number> {
    const task = await this.#store.task(taskId);
    if (task === undefined) return 0; // it was removed before it began
    const { status, summary } = decodeBody(task.body);
    if (status !== "open" && summary !== undefined)
      return summary.cost.billed_usd + summary.cost.ambiguous_usd;
    let committedUsd = 0;
    for await (const { records } of this.#store.journal(taskId))
      committedUsd = readStep(records).committedUsd;
    return committedUsd;
  }
}

function memberId(name: string, taskId: string): string {
  return `${name} ${taskId}`;
}

function memberChange(name: string, taskId: string, body: { readonly usd?: number }): RecordChange {
  const record = { project: PROJECT, createdWallMs: 0, collection: MEMBERS, parent: name };
  return { kind: "put", record: { ...record, id: memberId(name, taskId), body: JSON.stringify(body) } };
}

function memberChanges(name: string, taskId: string, body: { readonly usd?: number }): RecordChange[] {
  const record = { project: PROJECT, createdWallMs: 0, collection: CAPS_OF_TASK, parent: taskId, body: "{}" };
  return [memberChange(name, taskId, body), { kind: "put", record: { ...record, id: `${taskId} ${name}` } }];
}
