/**
 * A model of a provider's prompt cache: what each request reads, writes and pays.
 *
 *   nothing --a request asks, or the cache is automatic--> being written (others do not read it) --its answer--> warm --life over--> nothing
 *
 * `marks` (Anthropic): entries end at breakpoints, and live as long as their mark says since the last use; a write costs 1.25 or 2 times
 * the input. `blocks` (OpenAI): entries end at each 128 tokens, and live 5 minutes since the last use; a write costs nothing.
 */

export interface PromptPart {
  readonly text: string;
  readonly mark?: "5m" | "1h" | undefined;
}

/** In tokens. */
export interface CacheUsed {
  readonly input: number;
  readonly cached: number;
  readonly written: number;
  /** Of `written`. */
  readonly hours: number;
}

export interface CacheKind {
  readonly kind: "marks" | "blocks";
  /** Tokens below which nothing is cached. */
  readonly tokensMin: number;
}

interface Entry {
  readableMs: number;
  usedMs: number;
  readonly lifeMs: number;
}

export const CHARACTERS_PER_TOKEN = 5;
const LIFE_MS = { "5m": 300_000, "1h": 3_600_000 };
const BLOCK_TOKENS = 128;

/** The input of a request at the prices of the cache, in tokens of plain input. */
export function costTokensOf({ input, cached, written, hours }: CacheUsed): number {
  return input - cached - written + 0.1 * cached + 1.25 * (written - hours) + 2 * hours;
}

/** One for realtime, one for batches. */
export class PromptCache {
  readonly #kind: CacheKind;
  readonly #entries = new Map<string, Entry>();

  constructor(kind: CacheKind) {
    this.#kind = kind;
  }

  /** A request arrives, and is answered after a while. `hits`: false where the machine that has it does not have the entry. */
  use(parts: readonly PromptPart[], nowMs: number, answerMs: number, hits: boolean = true): CacheUsed {
    const text = parts.map((part) => part.text).join("\n\n");
    const ends =
      this.#kind.kind === "marks"
        ? markedEnds(parts, this.#kind.tokensMin)
        : blockEnds(text, this.#kind.tokensMin);
    let cached = 0;
    let written = 0;
    let hours = 0;
    for (const { units, tokens, mark } of ends) {
      const key = text.slice(0, units);
      const entry = this.#entries.get(key);
      if (hits && entry !== undefined && entry.readableMs <= nowMs && nowMs <= entry.usedMs + entry.lifeMs) {
        cached = tokens;
        entry.usedMs = nowMs;
        continue;
      }
      written = tokens - cached;
      hours = mark === "1h" ? written : 0;
      const readableMs = nowMs + answerMs;
      const isUnderWay = entry !== undefined && entry.readableMs > nowMs;
      if (isUnderWay) entry.readableMs = Math.min(entry.readableMs, readableMs);
      else this.#entries.set(key, { readableMs, usedMs: nowMs, lifeMs: LIFE_MS[mark] });
    }
    const input = tokensOf(text.length);
    return this.#kind.kind === "marks"
      ? { input, cached, written, hours }
      : { input, cached, written: 0, hours: 0 };
  }
}

interface End {
  readonly units: number;
  readonly tokens: number;
  readonly mark: "5m" | "1h";
}

function markedEnds(parts: readonly PromptPart[], tokensMin: number): End[] {
  const ends: End[] = [];
  let units = 0;
  for (const [index, { text, mark }] of parts.entries()) {
    units += text.length + (index === 0 ? 0 : 2);
    const tokens = tokensOf(units);
    if (mark !== undefined && tokens >= tokensMin) ends.push({ units, tokens, mark });
  }
  return ends;
}

function blockEnds(text: string, tokensMin: number): End[] {
  const ends: End[] = [];
  const most = tokensOf(text.length);
  for (let tokens = BLOCK_TOKENS; tokens <= most; tokens += BLOCK_TOKENS)
    if (tokens >= tokensMin) ends.push({ units: tokens * CHARACTERS_PER_TOKEN, tokens, mark: "5m" });
  return ends;
}

function tokensOf(units: number): number {
  return Math.floor(units / CHARACTERS_PER_TOKEN);
}
