/**
 * What decides whether posted work may be accepted, as the acceptance and retries ask it.
 */
import type { CostFloors } from "../../price/factor.ts";
import type { CountedWork } from "../plans/counted_work.ts";

/** Items of one model and one window. */
export interface Work extends CountedWork {
  readonly slaMinutes: number | null;
  readonly volumeTokens: number;
}

/** What is promised of work when it is accepted, and stays. */
export interface SalePromise {
  /** Below which none of its price factors lies; undefined without any. */
  readonly costFloors: CostFloors | undefined;
  /** Of what an item is charged, what it gets back if it misses its deadline, 0 to 1. */
  readonly refundShare: number;
}

/** What was admitted, and holds something until it is released: when it did not become durable, or has ended. */
export interface AdmittedWork {
  readonly estimatedUsd: number;
  readonly hold: { release(): void };
  readonly room: { release(): void };
}

/** The owner of the tasks. */
export interface Admits<A extends AdmittedWork> {
  /** `amount` is what all the works bring. Throws why it may not be accepted; nothing is held then. */
  admit(
    project: string,
    works: readonly Work[],
    amount: { readonly items: number; readonly bytes: number },
  ): Promise<A>;
  /**
   * What works of one sla are sold for today. `isPosted`: their items are sent from the work log, and make no batch of their own. Absent
   * where nothing is sold.
   */
  promises?(project: string, works: readonly Work[], isPosted: boolean): Promise<SalePromise>;
}
