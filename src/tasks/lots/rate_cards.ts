/**
 * The rate cards that price factors were promised by: each kept once, for the lots that name it.
 *
 * A factor is frozen when its item is submitted. Keeping the card freezes that of every model, also of those that stand
 * too far behind to have been looked at; and a card of a kilobyte serves all lots until the operator changes it.
 */
import { createHash } from "node:crypto";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { PerigeeError } from "../../errors.ts";
import type { RateCard } from "../../price/factor.ts";
import { EVERY_PROJECT, type RecordChange } from "../../store/records.ts";
import type { LotRecord } from "./lot_record.ts";

const RATE_CARDS = "rate_card";
const PAGE = 100;

/** A card is stored with the first lot that names it. */
export class RateCards {
  readonly #storage: Pick<EngineStorage, "store" | "clock">;
  readonly #today: RateCard;
  /** Name of the card of today: its content's checksum. */
  readonly current: string;
  readonly #cards: Map<string, RateCard>;
  #isStored = false;

  constructor(storage: Pick<EngineStorage, "store" | "clock">, today: RateCard) {
    this.#storage = storage;
    this.#today = today;
    this.current = createHash("sha256").update(JSON.stringify(today)).digest("base64url").slice(0, 22);
    this.#cards = new Map([[this.current, today]]);
  }

  /** Reads those of earlier processes. */
  async load(): Promise<void> {
    for (let after: string | undefined; ; ) {
      const query = { collection: RATE_CARDS, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await this.#storage.store.records(EVERY_PROJECT, query);
      for (const { id, body } of page) this.#cards.set(id, JSON.parse(body) as RateCard); // written below
      after = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  /** To be committed with every new lot: nothing once a commit with it has ended well. */
  unstored(): RecordChange[] {
    if (this.#isStored) return [];
    const { clock } = this.#storage;
    const record = { collection: RATE_CARDS, id: this.current, project: "", parent: "" };
    const body = JSON.stringify(this.#today);
    return [{ kind: "put", record: { ...record, createdWallMs: clock.wallMs(), body } }];
  }

  /** A lot that names the card of today is stored. */
  stored(): void {
    this.#isStored = true;
  }

  /** The card by which the items of a lot are billed. */
  of({ id, rateCard = this.current }: Pick<LotRecord, "id" | "rateCard">): RateCard {
    const card = this.#cards.get(rateCard);
    if (card === undefined) throw new PerigeeError("store_failed", `the rate card of lot ${id} is missing`);
    return card;
  }
}
