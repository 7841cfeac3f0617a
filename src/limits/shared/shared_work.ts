/**
 * What waits for the limits of an account, or of a family of models, at each of several processes. So each of them counts the work of
 * all: for its share, what is served first, and when work is done (queue/urgency.ts, queue/feasibility.ts). Its state is kept where all reach it (a row of
 * a database), changed by one process at a time, on the clock of that place. Pure; `drawn_work.ts` is the side of a process.
 *
 *   absent --report--> known --report--> known       (written each second, and at once when its weights change)
 *                            --12 s without a report, or a report of nothing--> absent
 *
 * What is with batches is reported apart: it needs the limits only if its batches are left (queue/batch_choice.ts), and a process that leaves some must
 * know what else may have to be sent by then.
 *
 * Limits: `CLASSES_MAX` entries a process of each kind, so that 100 processes are some 20 KB.
 */

/** Work of one process that is due by about the same time. */
export interface DueClass {
  /** Unix milliseconds; null without a deadline. */
  readonly deadlineMs: number | null;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What waits at one process. */
export interface WorkStanding {
  /** The weights of the projects that wait, together. */
  readonly weight: number;
  /** Of this, what has precedence over the work of others now, and the weights of its projects. */
  readonly first: FirstWork;
  readonly classes: readonly DueClass[];
  /** What is with batches: it needs these limits if its batches are left. */
  readonly batched: readonly DueClass[];
}

export interface FirstWork extends Omit<DueClass, "deadlineMs"> {
  readonly weight: number;
}

export interface WorkAsk extends WorkStanding {
  /** The process, unique for its life. */
  readonly holder: string;
}

/** What waits at another process. */
export interface OtherWork {
  readonly holder: string;
  readonly weight: number;
  readonly classes: readonly DueClass[];
  readonly batched: readonly DueClass[];
}

/** How a process that asks for units of a quota ranks among the others. */
export interface Precedence {
  /** Above 0. */
  readonly weight: number;
  /** Units that have precedence over what others want without it, and the weight with which they share. */
  readonly first: number;
  readonly firstWeight: number;
}

type Amounts = readonly [requests: number, inputTokens: number, outputTokens: number];
/** Its deadline is in seconds. */
type ClassRow = readonly [deadline: number | null, ...amounts: Amounts];
type HolderRow = readonly [
  name: string,
  /** Milliseconds before `newestMs`. */
  ago: number,
  weight: number,
  first: readonly [weight: number, ...amounts: Amounts] | null,
  classes: readonly ClassRow[],
  batched: readonly ClassRow[],
];

/** As JSON. Short, because each draw reads it while the others wait. */
export interface SharedWorkState {
  readonly newestMs: number;
  readonly holders: readonly HolderRow[];
}

/** What each process reports at most. */
export const CLASSES_MAX = 6;

const WRITE_MS = 1_000;
/** Above the longest time between two draws. */
const KEPT_MS = 12_000;
/** Of a process of whose work nothing is known. */
export const EQUAL: Precedence = { weight: 1, first: 0, firstWeight: 1 };
/** Nothing waits. */
export const NO_WORK: WorkStanding = {
  weight: 0,
  first: { weight: 0, requests: 0, inputTokens: 0, outputTokens: 0 },
  classes: [],
  batched: [],
};

interface Known extends WorkStanding {
  readonly atMs: number;
}

export class SharedWork {
  readonly #holders: Map<string, Known>;
  #newestMs: number;

  constructor(state?: SharedWorkState) {
    this.#newestMs = state?.newestMs ?? Number.NEGATIVE_INFINITY;
    this.#holders = new Map(state?.holders.map((row) => [row[0], knownOf(row, state.newestMs)]));
  }

  /** Takes a report, and returns whether the state has to be kept. `clockMs`: the clock of this place; when it goes back, time stands still. */
  report(clockMs: number, { holder, ...standing }: WorkAsk): boolean {
    const nowMs = Math.max(clockMs, this.#newestMs);
    const before = this.#holders.get(holder);
    if (before !== undefined && nowMs - before.atMs < WRITE_MS && isAlike(before, standing)) return false;
    if (before === undefined && isNoWork(standing)) return false;
    this.#newestMs = nowMs;
    if (isNoWork(standing)) this.#holders.delete(holder);
    else this.#holders.set(holder, { ...standing, atMs: nowMs });
    for (const [name, { atMs }] of this.#holders) if (nowMs - atMs > KEPT_MS) this.#holders.delete(name);
    return true;
  }

  /** What waits at the other processes. */
  others(clockMs: number, holder: string): OtherWork[] {
    return [...this.#holders].flatMap(([name, { atMs, weight, classes, batched }]) =>
      name === holder || clockMs - atMs > KEPT_MS ? [] : [{ holder: name, weight, classes, batched }],
    );
  }

  /** How a process ranks that asks for a quota. One that has not reported its work has the weight 1 and no precedence. */
  precedence(holder: string, quota: keyof QuotaUnits): Precedence {
    const { weight, first } = this.#holders.get(holder) ?? NO_WORK;
    if (weight <= 0) return EQUAL;
    return { weight, first: unitsOf(first)[quota], firstWeight: first.weight > 0 ? first.weight : weight };
  }

  /** The state that the next `SharedWork` continues from. */
  toState(): SharedWorkState {
    return {
      newestMs: this.#newestMs,
      holders: [...this.#holders].map(([name, known]) => rowOf(name, known, this.#newestMs)),
    };
  }
}

/** Units of each quota. */
export interface QuotaUnits {
  readonly requests: number;
  readonly tokens: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

function unitsOf({ requests, inputTokens, outputTokens }: Omit<FirstWork, "weight">): QuotaUnits {
  return { requests, tokens: inputTokens + outputTokens, inputTokens, outputTokens };
}

/** Whether nothing waits, and nothing is with batches. */
export function isNoWork({ weight, classes, batched }: WorkStanding): boolean {
  return weight <= 0 && classes.length + batched.length === 0;
}

/** Whether the others would decide the same by both. Amounts change all the time: those are written each second. */
function isAlike(left: WorkStanding, right: WorkStanding): boolean {
  const isSame = left.weight === right.weight && left.first.weight === right.first.weight;
  return isSame && left.batched.length === right.batched.length;
}

function rowOf(name: string, { atMs, weight, first, classes, batched }: Known, newestMs: number): HolderRow {
  const isFirst = first.weight > 0;
  return [
    name,
    newestMs - atMs,
    weight,
    isFirst ? [first.weight, ...amountsOf(first)] : null,
    classes.map(classRow),
    batched.map(classRow),
  ];
}

function classRow(one: DueClass): ClassRow {
  return [one.deadlineMs === null ? null : Math.round(one.deadlineMs / 1_000), ...amountsOf(one)];
}

function amountsOf({ requests, inputTokens, outputTokens }: Omit<DueClass, "deadlineMs">): Amounts {
  return [Math.ceil(requests), Math.ceil(inputTokens), Math.ceil(outputTokens)];
}

function knownOf([, ago, weight, first, classes, batched]: HolderRow, newestMs: number): Known {
  const [firstWeight, ...amounts] = first ?? ([0, 0, 0, 0] as const);
  return {
    atMs: newestMs - ago,
    weight,
    first: { weight: firstWeight, ...namedOf(amounts) },
    classes: classes.map(classOfRow),
    batched: batched.map(classOfRow),
  };
}

function classOfRow([deadline, ...amounts]: ClassRow): DueClass {
  return { deadlineMs: deadline === null ? null : deadline * 1_000, ...namedOf(amounts) };
}

function namedOf([requests, inputTokens, outputTokens]: Amounts): Omit<DueClass, "deadlineMs"> {
  return { requests, inputTokens, outputTokens };
}

/** At most `CLASSES_MAX` of them: those with the nearest times left are put together, and are due when the first of them is. */
export function dueClasses(nowMs: number, works: readonly DueClass[]): DueClass[] {
  for (let ratio = 1.05; ; ratio *= ratio) {
    const classes = new Map<number | null, DueClass>();
    for (const work of works) {
      const key = work.deadlineMs === null ? null : classOf(work.deadlineMs - nowMs, ratio);
      classes.set(key, both(classes.get(key), work));
    }
    if (classes.size <= CLASSES_MAX) return [...classes.values()];
  }
}

function classOf(leftMs: number, ratio: number): number {
  return Math.floor(Math.log(Math.max(1_000, leftMs)) / Math.log(ratio));
}

function both(left: DueClass | undefined, right: DueClass): DueClass {
  if (left === undefined) return right;
  return {
    deadlineMs:
      left.deadlineMs === null || right.deadlineMs === null
        ? null
        : Math.min(left.deadlineMs, right.deadlineMs),
    requests: left.requests + right.requests,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
  };
}
