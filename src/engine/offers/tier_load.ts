/** What is under way in a cheaper tier, of one lane, or of all lanes of a provider: they share its places in flight. */
import type { DueLoad } from "../../queue/due_work.ts";
import type { TokenLoad } from "../../work/limits.ts";

export class TierLoad implements DueLoad {
  #items = 0;
  #inputTokens = 0;
  #outputTokens = 0;

  get items(): number {
    return this.#items;
  }

  /** As reserved. */
  get inputTokens(): number {
    return this.#inputTokens;
  }

  /** As reserved. */
  get outputTokens(): number {
    return this.#outputTokens;
  }

  add({ inputTokens, outputTokens }: TokenLoad): void {
    this.#items += 1;
    this.#inputTokens += inputTokens;
    this.#outputTokens += outputTokens;
  }

  remove({ inputTokens, outputTokens }: TokenLoad): void {
    this.#items -= 1;
    this.#inputTokens -= inputTokens;
    this.#outputTokens -= outputTokens;
  }
}
