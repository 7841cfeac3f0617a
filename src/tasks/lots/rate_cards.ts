/**
 * The rate cards that determined promised price factors: each is stored once, for the lots that name it.
 *
 * A factor is frozen when its item is submitted. Storing the card freezes the factors of all models, also of items too far back in the
 * file to have been read. A card of a kilobyte serves all lots until the operator changes it.
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
  /** Name of today's card: its content's checksum. */
  readonly current: string;
  readonly #cards: Map<string, RateCard>;
  #isStored = false;

  constructor(storage: Pick<EngineStorage, "store" | "clock">, today: RateCard) {
    this.#storage = storage;
    this.#today = today;
    this.current = createHash("sha256").update(JSON.stringify(today)).digest("base64url").slice(0, 22);
    this.#cards = new Map([[this.current, today]]);
  }

  /** Reads the cards of earlier processes. */
  async load(): Promise<void> {
    for (let after: string | undefined; ; ) {
      const query = { collection: RATE_CARDS, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await this.#storage.store.records(EVERY_PROJECT, query);
      for (const { id, body } of page) this.#cards.set(id, JSON.parse(body) as RateCard); // written below
      after = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  /** To commit with every new lot; empty once such a commit has succeeded. */
  unstored(): RecordChange[] {
    if (this.#isStored) return [];
    const { clock } = this.#storage;
    const record = { collection: RATE_CARDS, id: this.current, project: "", parent: "" };
    const body = JSON.stringify(this.#today);
    return [{ kind: "put", record: { ...record, createdWallMs: clock.wallMs(), body } }];
  }

  /** A lot that names today's card is stored. */
  stored(): void {
    this.#isStored = true;
  }

  /** The card by which the items of a lot are billed, with what is promised of this lot. */
  of({
    id,
    rateCard = this.current,
    costFloors,
  }: Pick<LotRecord, "id" | "rateCard" | "costFloors">): RateCard {
    const card = this.#cards.get(rateCard);
    if (card === undefined) throw new PerigeeError("store_failed", `the rate card of lot ${id} is missing`);
    return costFloors === undefined ? card : { ...card, costFloors };
  }
}
