/**
 * The servers that speak OpenAI's files and batches, as data (state 2026-11-22). Figures without a source are those of OpenAI or what
 * others measured: `BatchSettings` has a member for each.
 */
import type { BatchEndpoint, BatchLimits, BatchTraits } from "./batch_wire.ts";

/** What differs between such servers. */
export interface OpenaiServer {
  readonly limits: BatchLimits;
  readonly endpoints: readonly BatchEndpoint[];
  readonly takes: BatchTraits["takes"];
  /** The only `completion_window`; absent: `limits.windowMs` in whole hours. */
  readonly window?: string;
  /** When it is asked to delete uploaded files, in ms after the upload; 0: it does not take the wish. */
  readonly fileExpiryMs: number;
  /** Whether the files of results are asked to be deleted after `limits.keptMs`. */
  readonly expiresOutputs: boolean;
  /** What is asked of the list of files, besides those of batches. */
  readonly filesQuery: Readonly<Record<string, string>>;
  /** Batches on a page of the list; absent: the server has no pages. */
  readonly pageItems?: number;
  /** The number of the first line in `errors.data[].line`. */
  readonly firstLine: 0 | 1;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ALL_TAKEN = { tools: true, images: true, schemas: true } as const;

/**
 * 50,000 requests and 200 MB, window and expiries: openai 6.49.0, `resources/batches.d.ts` and `files.d.ts`. The limits of what may be
 * enqueued differ by tier and model. A batch of embeddings may hold 50,000 inputs over all its requests. Lines are counted from 1
 * in what users report of `invalid_json_line`; nothing documents it.
 */
const OPENAI: OpenaiServer = {
  limits: {
    itemsMax: 50_000,
    inputsMax: 50_000,
    bytesMax: 200_000_000,
    windowMs: DAY_MS,
    keptMs: 30 * DAY_MS,
  },
  endpoints: ["chat", "responses", "embeddings", "completions", "moderations"],
  takes: ALL_TAKEN,
  window: "24h",
  fileExpiryMs: 2 * DAY_MS,
  expiresOutputs: true,
  filesQuery: { limit: "1000", order: "desc" },
  pageItems: 100,
  firstLine: 1,
};

/** A server that is known to speak the wire, and nothing else of it. */
const COMPATIBLE: OpenaiServer = {
  limits: OPENAI.limits,
  endpoints: ["chat", "embeddings"],
  takes: ALL_TAKEN,
  fileExpiryMs: 0,
  expiresOutputs: false,
  filesQuery: {},
  pageItems: 100,
  firstLine: 1,
};

/** By the name of the wire. */
export const OPENAI_SERVERS: ReadonlyMap<string, OpenaiServer> = new Map<string, OpenaiServer>([
  ["openai", OPENAI],
  ["compatible", COMPATIBLE],
  // 100 MB, one endpoint, windows from 24h to 7d, lists without pages: groq-sdk 1.6.0.
  [
    "groq",
    { ...withoutPages(COMPATIBLE), limits: { ...OPENAI.limits, bytesMax: 100_000_000 }, endpoints: ["chat"] },
  ],
  // The model is a deployment, and its enqueued tokens are limited. After 24 h it goes on until it is cancelled; the smallest expiry
  // of its files is longer than OpenAI's, so none is asked for (learn.microsoft.com/azure/ai-services/openai/how-to/batch).
  ["azure", { ...COMPATIBLE, endpoints: ["chat", "responses"], window: "24h" }],
  // Answers show the window as a label, such as "Standard (24h)"; it is not read.
  ["doubleword", COMPATIBLE],
  [
    "novita",
    {
      ...COMPATIBLE,
      limits: { ...OPENAI.limits, windowMs: 48 * HOUR_MS },
      endpoints: ["chat"],
      window: "48h",
    },
  ],
  ["dashscope", { ...COMPATIBLE, limits: { ...OPENAI.limits, bytesMax: 500_000_000 }, endpoints: ["chat"] }],
]);

function withoutPages({ pageItems: _none, ...server }: OpenaiServer): OpenaiServer {
  return server;
}
