/**
 * The port through which an engine draws from caps that it shares with others (`shared_money.ts`).
 */
import type { MoneyAsk, MoneyGrant } from "./shared_money.ts";

/** Port. One for an engine. */
export interface CapPool {
  /** Whose money it is: the same for each engine that continues this one's work. */
  readonly holder: string;
  /** Higher than that of each engine before. */
  readonly epoch: number;
  /**
   * Books the ask with its cap locked meanwhile. Calls for different caps may overlap. Rejects when the place cannot be reached or does not answer
   * in time: the ask may have been booked, and the caller repeats it unchanged. Rejects for ever once a later engine has drawn.
   */
  draw(cap: string, ask: MoneyAsk): Promise<MoneyGrant>;
}
