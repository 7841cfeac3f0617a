/**
 * The backlog: work that is accepted and not final, per project and in all, and its limits.
 *
 *   reserved (being accepted) -> counted with its lot -> fewer with each final item -> released
 *
 *   refused with `too_many` while   open + wanted > bound,   unless nothing is open: a task above the bound is accepted
 *   when it is the only one, so that no task is refused for ever
 *
 * Accepted work stays accepted: if a bound is lowered, or exceeded after a restart, only new work is refused. Bytes are those of the
 * lines of tasks; uploaded files have a separate bound.
 */
import type { BacklogBounds } from "../../engine/config/config_options.ts";
import { PerigeeError } from "../../errors.ts";

const BOUNDS: Required<BacklogBounds> = {
  projectItems: 1_000_000,
  projectBytes: 100_000_000_000,
  items: 10_000_000,
  bytes: 500_000_000_000,
};
/** Less work may wait by then. */
const RETRY_AFTER_SECONDS = 30;

/** Items that are not final, and bytes of their lines on the disk. */
export interface Amount {
  readonly items: number;
  readonly bytes: number;
}

interface Sum {
  items: number;
  bytes: number;
}

/** Only in memory; a start counts open work again. */
export class TaskBacklog {
  readonly #bounds: Required<BacklogBounds>;
  readonly #all: Sum = { items: 0, bytes: 0 };
  readonly #byProject = new Map<string, Sum>();

  constructor(bounds: BacklogBounds = {}) {
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  /** Open work of a project. */
  open(project: string): Amount {
    return { ...(this.#byProject.get(project) ?? { items: 0, bytes: 0 }) };
  }

  /** Throws `too_many` (`details.retryAfterSeconds`) if a task of this size does not fit. */
  assertRoom(project: string, wanted: Amount): void {
    const { projectItems, projectBytes, items, bytes } = this.#bounds;
    assertWithin(this.open(project), wanted, { items: projectItems, bytes: projectBytes }, "of your project");
    assertWithin(this.#all, wanted, { items, bytes }, "of the service");
  }

  /** Reserves space for work that is being accepted; release it once the lot counts the work, or it is refused. Throws `too_many`. */
  reserve(project: string, wanted: Amount): Share {
    this.assertRoom(project, wanted);
    const share = this.share(project);
    share.grow(wanted);
    return share;
  }

  /** An empty part of a project's backlog. */
  share(project: string): Share {
    return new Share((items, bytes) => this.#change(project, items, bytes));
  }

  #change(project: string, items: number, bytes: number): void {
    const sum = this.#byProject.get(project) ?? { items: 0, bytes: 0 };
    for (const each of [sum, this.#all]) {
      each.items += items;
      each.bytes += bytes;
    }
    if (sum.items === 0 && sum.bytes === 0) this.#byProject.delete(project);
    else this.#byProject.set(project, sum);
  }
}

/** The part of the backlog that one lot, or one reservation, has. */
export class Share {
  readonly #change: (items: number, bytes: number) => void;
  #items = 0;
  #bytes = 0;

  constructor(change: (items: number, bytes: number) => void) {
    this.#change = change;
  }

  /** Items that are accepted and not final. */
  get items(): number {
    return this.#items;
  }

  grow({ items, bytes }: Amount): void {
    this.#items += items;
    this.#bytes += bytes;
    this.#change(items, bytes);
  }

  /** Sets the number of its items; its bytes do not change. */
  setItems(items: number): void {
    const more = Math.max(0, items) - this.#items;
    this.#items += more;
    if (more !== 0) this.#change(more, 0);
  }

  /** `items` more of its items are final. */
  settle(items: number): void {
    this.setItems(this.#items - items);
  }

  /** Nothing in it is open any more; a second call changes nothing. */
  release(): void {
    this.grow({ items: -this.#items, bytes: -this.#bytes });
  }
}

function assertWithin(open: Amount, wanted: Amount, bounds: Amount, whose: string): void {
  for (const unit of ["items", "bytes"] as const) {
    if (open.items === 0 || open[unit] + wanted[unit] <= bounds[unit]) continue;
    const message = `${open[unit]} ${unit} ${whose} wait or are at work, and at most ${bounds[unit]} may: send this again later`;
    throw new PerigeeError("too_many", message, { details: { retryAfterSeconds: RETRY_AFTER_SECONDS } });
  }
}
