/**
 * What an answer took that was written before a crash and not recorded, by what its line has: first of
 *
 *   the sums for its item           as they are; its price is looked up for its number only
 *   the provider's body             its usage, at the price of today
 *   a text                          tokens as they were reserved for its request and as long as the text is: an estimate
 *
 * The line in the input is read for the item's model.
 */
import { answered } from "../../dispatch/attempt.ts";
import type { ReadOutput } from "../../jsonl/write.ts";
import type { Provider } from "../../providers/provider.ts";
import type { MeasureOptions } from "../../shard/measure.ts";
import { NO_USAGE, tokensOfChars } from "../../work/outcome.ts";
import { answeringMember } from "../config/model_aliases.ts";
import type { EngineCore } from "../core.ts";
import { addSpent, type CostTerms, type EndedAttempt, priced, spentBy } from "../journal/item_cost.ts";
import type { IntentRecord, Spent } from "../journal/journal.ts";

/** An answer or failure whose request was under way, and what earlier attempts of its item took. */
export interface AdoptedAttempt {
  /** The line of the input, without its end. */
  readonly input: Uint8Array;
  readonly found: ReadOutput;
  readonly intent: IntentRecord;
  readonly before: Spent;
}

/** What all attempts of the item took. */
export type ReckonAdopted = (attempt: AdoptedAttempt) => Promise<Spent>;

/** What the tokens would cost that were reserved for a request, in USD; 0 where its price is not known. */
export type CostOfReserved = (input: Uint8Array, intent: IntentRecord) => Promise<number>;

/** `modelOverride` as the run measured its lines with. Of an alias, the model counts that the line says has answered. */
export function adoptedCosts(
  {
    storage,
    measurer,
    figures,
    sending,
    config,
  }: Pick<EngineCore, "storage" | "measurer" | "figures" | "sending" | "config">,
  terms: CostTerms,
  modelOverride: MeasureOptions["modelOverride"],
): { readonly reckon: ReckonAdopted; readonly reserved: CostOfReserved } {
  const { clock } = storage;
  const { prices } = figures;
  const { sender } = sending;
  const { aliases } = config;
  const modelOf = async (input: Uint8Array, model: string | undefined, named?: string): Promise<string> => {
    const block = { bytes: Uint8Array.from(input), offset: 0, firstLine: 1, lineCount: 1 };
    const options = { wantBodies: false, wantCounts: false, modelOverride: model, aliases: aliases.first };
    const [group] = (await measurer.measure(block, options)).groups;
    return group === undefined ? "" : answeringMember(aliases, group.alias, group.model, named);
  };
  const reserved: CostOfReserved = async (input, { inputTokens, outputTokens }) => {
    const usage = { ...NO_USAGE, inputTokens, outputTokens };
    return priced(prices, terms, await modelOf(input, modelOverride), usage, { wallMs: clock.wallMs() })
      .billedUsd;
  };
  const reckon: ReckonAdopted = async ({ input, found, intent, before }) => {
    const wallMs = clock.wallMs();
    const asked = await modelOf(input, modelOverride, found.model);
    const { used } = found;
    if (used !== undefined) {
      const { priceNumber } = priced(prices, terms, asked, { ...NO_USAGE, ...used }, { wallMs });
      const usd = before.usd + (used.listUsd - before.listUsd) * terms.factorOf(asked);
      return { ...used, usd, priceNumber };
    }
    const told =
      asked === "" ? undefined : toldBy((answer) => sender.decode(asked, answer), found, intent, wallMs);
    // A provider may name the model as no price list does: then the one that the item requests counts.
    const { model: named } = found;
    const isPriced = named !== undefined && prices.priceOf(named, wallMs).price !== undefined;
    const model = told === undefined && isPriced ? await modelOf(input, named) : asked;
    const result = told ?? estimated(found, intent);
    const last = spentBy(prices, terms, {
      model,
      line: intent.line,
      result,
      mostUsd: intent.mostUsd,
      wallMs,
    });
    // Nothing of a guess is billed while all that it may have cost is in doubt; intents of old versions do not record that.
    const isGuess = told === undefined && result.class === "success" && intent.mostUsd > 0;
    return addSpent(before, isGuess ? { ...last, billedUsd: 0, ambiguousUsd: intent.mostUsd } : last);
  };
  return { reckon, reserved };
}

/** What a provider's body says; undefined without a body, or with one that is not an answer. */
function toldBy(
  decode: Provider["decode"],
  { body }: ReadOutput,
  { inputTokens }: IntentRecord,
  wallMs: number,
): EndedAttempt["result"] | undefined {
  if (body === undefined) return undefined;
  const decoded = decode({ status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)), wallMs });
  const result = answered(decoded, { status: 200, learnt: undefined, latencyMs: 0, inputTokens });
  return result.class === "success" ? result : undefined;
}

/** What a provider refuses costs nothing; after another error the attempt may have been billed. */
function estimated(found: ReadOutput, intent: IntentRecord): EndedAttempt["result"] {
  const { ok, providerStatus = 0, ambiguousAttempts = 0, textChars = 0 } = found;
  if (!ok) {
    const isRefused = providerStatus >= 400 && ambiguousAttempts <= intent.ambiguousAttempts;
    return { class: isRefused ? "refused" : "ambiguous" };
  }
  const { inputTokens } = intent;
  const outputTokens = tokensOfChars(textChars);
  return { class: "success", usage: { ...NO_USAGE, inputTokens, outputTokens, isEstimated: true } };
}
