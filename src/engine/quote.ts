/**
 * Quotes: what a source would take, counted exactly and priced, without sending anything.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { readBlocks } from "../jsonl/read.ts";
import { type ModelTotals, type Quote, quote } from "../price/quote.ts";
import type { MeasuredBlock } from "../shard/measured.ts";
import { parseModelId } from "../work/request.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import type { EngineConfig } from "./config.ts";
import { openInput, type Source } from "./input.ts";
import type { EngineParts } from "./parts.ts";

/** Options of `engine.quote`. */
export interface QuoteOptions {
  /** Windows to quote, in minutes. Default: 60 and 1,440. */
  readonly slas?: readonly number[];
  readonly model?: string;
}

type Totals = { -readonly [name in keyof ModelTotals]: ModelTotals[name] };

/** Lines that would fail are left out. Throws as `run` does for an input that cannot be read. */
export async function quoteSource(
  parts: EngineParts,
  config: EngineConfig,
  source: Source,
  options: QuoteOptions,
): Promise<Quote> {
  const slasMinutes = (options.slas ?? [60, 1_440]).map(
    (sla, index) => parseSlaMinutes(sla, `sla ${index + 1}`) ?? 0,
  );
  const totals = await countSource(parts, source, options.model);
  const wallMs = parts.clock.wallMs();
  return quote({
    totals,
    wallMs,
    slasMinutes,
    card: parts.rateCard,
    price: (model) => parts.prices.price(model, wallMs),
    limits: (model) => {
      const { provider = "" } = parseModelId(model) ?? {};
      const limits = config.limits[provider] ?? {};
      return { group: provider, limits: { concurrency: config.maxInFlight, ...limits } };
    },
  });
}

async function countSource(
  parts: EngineParts,
  source: Source,
  model: string | undefined,
): Promise<ModelTotals[]> {
  const spool = join(parts.dataDir, "tasks", `quote-${randomUUID()}.jsonl`);
  const input = await openInput(parts.disk, source, spool);
  const totals = new Map<string, Totals>();
  try {
    const waiting: Promise<MeasuredBlock>[] = [];
    for await (const event of readBlocks(input.file, { lineBytesMax: parts.lineBytesMax })) {
      if (event.kind === "refused") continue;
      waiting.push(
        parts.measurer.measure(event.block, {
          wantBodies: false,
          ...(model === undefined ? {} : { modelOverride: model }),
        }),
      );
      if (waiting.length > parts.measurer.concurrency)
        addBlock(parts, totals, await (waiting.shift() as Promise<MeasuredBlock>));
    }
    for (const measured of waiting) addBlock(parts, totals, await measured);
  } finally {
    await input.file.close();
    await parts.disk.remove(spool);
  }
  return [...totals.values()];
}

function addBlock(parts: EngineParts, totals: Map<string, Totals>, measured: MeasuredBlock): void {
  for (let item = 0; item < measured.count; item += 1) {
    const group = measured.groups[measured.groupOf[item] as number];
    if (group === undefined) continue;
    const limit = measured.maxOutputTokens[item] as number;
    const basis = limit > 0 ? "max_output_tokens of the items" : "default 512";
    const key = `${group.model} ${basis}`;
    const row = totals.get(key) ?? {
      model: group.model,
      items: 0,
      inputTokens: 0,
      isEstimated: group.isEstimated,
      expectedOutputTokens: 0,
      basis,
    };
    row.items += 1;
    row.inputTokens += measured.inputTokens[item] as number;
    row.expectedOutputTokens += limit > 0 ? limit : parts.sender.expectedOutputTokensOf(group.model, 0);
    totals.set(key, row);
  }
}
