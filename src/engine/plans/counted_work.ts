/**
 * What counted items take, in sums for each model, for admission, forecasts and batches, before anything is sent.
 *
 * Hot: once for each item of a post.
 */
import { batchEndpointOf } from "../../providers/batches/batch_endpoints.ts";
import type { BatchEndpoint } from "../../providers/batches/batch_wire.ts";
import type { EndpointKind } from "../../work/request.ts";
import type { ItemLoads } from "../items/item_loads.ts";

/** Items of one model. */
export interface CountedWork {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** What they ask for, each once. */
  readonly endpoints: readonly BatchEndpoint[];
  readonly items: number;
  /** In which they are sent, where several may share one. */
  readonly requests: number;
  readonly inputTokens: number;
  /** Expected, of each item no more than its own limit. */
  readonly outputTokens: number;
}

/** An item; `add` may count it several times. */
interface CountedItem {
  readonly model: string;
  /** Undefined: a chat. */
  readonly kind: EndpointKind | undefined;
  /** Its part of a request; 1 for one that is sent by itself. */
  readonly requests: number;
  readonly inputTokens: number;
  /** 0 without one. */
  readonly maxOutputTokens: number;
}

/** Sums by model, of the items that were added. */
export class CountedWorks {
  readonly #loads: Pick<ItemLoads, "outputTokensOf">;
  readonly #works = new Map<string, { -readonly [name in keyof CountedWork]: CountedWork[name] }>();

  constructor(loads: Pick<ItemLoads, "outputTokensOf">) {
    this.#loads = loads;
  }

  /** In the order of their first items. */
  get all(): readonly CountedWork[] {
    return [...this.#works.values()];
  }

  /** `scale`: how many items like it there are. */
  add({ model, kind, requests, inputTokens, maxOutputTokens }: CountedItem, scale = 1): void {
    const endpoint = batchEndpointOf(kind);
    let work = this.#works.get(model);
    if (work === undefined) {
      work = { model, endpoints: [endpoint], items: 0, requests: 0, inputTokens: 0, outputTokens: 0 };
      this.#works.set(model, work);
    } else if (!work.endpoints.includes(endpoint)) work.endpoints = [...work.endpoints, endpoint];
    work.items += scale;
    work.requests += scale * requests;
    work.inputTokens += scale * inputTokens;
    work.outputTokens += scale * this.#loads.outputTokensOf(model, maxOutputTokens, kind);
  }
}
