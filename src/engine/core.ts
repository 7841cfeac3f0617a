/**
 * What an engine is built of, one member for each concern. Modules take the members that they use.
 */
import type { PriceBook } from "../price/price_book.ts";
import type { AnswerMeans } from "../queue/answer_means.ts";
import type { Measurer } from "../shard/pool.ts";
import type { EngineConfig } from "./config/config.ts";
import type { SharedCaps } from "./files/shared_caps.ts";
import type { Recording } from "./journal/recording.ts";
import type { EngineStorage } from "./journal/storage.ts";
import type { Sending } from "./lanes/sending.ts";
import type { AnswerFits } from "./learnt/answer_fits.ts";
import type { QuoteRecords } from "./learnt/quote_records.ts";

/** Built by `engine.ts`. */
export interface EngineCore {
  readonly config: EngineConfig;
  readonly storage: EngineStorage;
  readonly measurer: Measurer;
  readonly recording: Recording;
  readonly sending: Sending;
  readonly figures: Figures;
  readonly caps: SharedCaps;
  /** Names and outputs of runs at work: no two may share one. */
  readonly atWork: Set<string>;
}

/** What requests cost, and what their answers were like. */
export interface Figures {
  readonly prices: PriceBook;
  readonly answers: AnswerMeans;
  /** How often answers do not fit their schemas. */
  readonly fits: AnswerFits;
  /** What quotes missed. */
  readonly quotes: QuoteRecords;
}
