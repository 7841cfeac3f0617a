/**
 * Tokens per second a core: the own counter (compiled, from dist) against tiktoken's `encode_ordinary`.
 *
 *   npm run build && node --import tsx bench/tokens.ts
 *
 * Prompts are strings of about 600 bytes, made fresh so that no run sees a text twice; words follow a Zipf-like law.
 * Each figure is CPU time, the median of ROUNDS rounds in which all counters take their turn: compare the ratios. Hostile texts are counted once each, 100,000 UTF-16 units long, in milliseconds.
 */
import { get_encoding } from "tiktoken";

type Encoding = "o200k_base" | "cl100k_base";
type Count = (text: string) => number;

const ROUNDS = 7;
const PROMPTS = 1000;
const PROMPT_BYTES = 600;
const SLICE_UNITS = 1024;

const entrance = new URL("../dist/tokens/count.js", import.meta.url).href;
const { countTokens } = (await import(entrance)) as { countTokens(encoding: Encoding, text: string): number };

let seed = 42;
function random(): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

const COMMON =
  "the of and to a in is that it for was on with as be at by this have from or had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know".split(
    " ",
  );
const RARE =
  "Janet's ducks lay eggs per day; breakfast, muffins, friends, remainder, farmers' market, daily, fresh, dollars, calculate, kilometres, percentage, discount, restaurant, warehouse, manufacturing, algorithm, responsibility, Wednesday, approximately, electricity, photosynthesis, JavaScript, $16.50, 1,250, 40%, (a), step-by-step, Q3, e.g., entrepreneurship, neighbourhood, thermodynamics, unbelievably, Massachusetts, quarterly, subscription, invoice, customer's, summarize, translate, JSON, classification, sentiment, paragraph".split(
    " ",
  );
const MULTILINGUAL = [
  "জেনেট প্রতিদিন ষোলটি ডিম সংগ্রহ করেন এবং বাকিগুলি বাজারে বিক্রি করেন।",
  "珍妮特的鸭子每天下十六个蛋,她每天早上吃三个,其余的在农贸市场出售。",
  "ジャネットのアヒルは毎日卵を十六個産みます。残りは市場で売ります。",
  "เป็ดของเจเน็ตออกไข่วันละสิบหกฟอง เธอกินสามฟองเป็นอาหารเช้าทุกวัน",
  "Утки Джанет несут шестнадцать яиц в день, остальные она продаёт на рынке.",
  "تضع بطات جانيت ستة عشر بيضة كل يوم وتبيع الباقي في السوق.",
  "Les canes de Janet pondent seize œufs par jour ; elle vend le reste au marché.",
  "जेनेट की बत्तखें रोज़ सोलह अंडे देती हैं और बाकी बाज़ार में बिकते हैं।",
];

function englishPrompt(): string {
  let text = "";
  while (text.length < PROMPT_BYTES) {
    const words = random() < 0.75 ? COMMON : RARE;
    const word = words[Math.floor(words.length * random() ** 2)] as string;
    text += text === "" || random() < 0.06 ? `${word[0]?.toUpperCase()}${word.slice(1)}` : ` ${word}`;
    if (random() < 0.05) text += random() < 0.5 ? "." : ",";
    if (random() < 0.02) text += ` ${Math.floor(random() * 5000)}`;
    if (random() < 0.01) text += "\n\n";
  }
  return flat(text);
}

/** Real sentences with a number that changes, so that few pieces but many words recur. */
function multilingualPrompt(): string {
  let text = "";
  while (Buffer.byteLength(text) < PROMPT_BYTES) {
    const sentence = MULTILINGUAL[Math.floor(random() * MULTILINGUAL.length)] as string;
    const from = Math.floor(random() * 12);
    text += `${sentence.slice(from)} ${Math.floor(random() * 1000)} `;
  }
  return flat(text);
}

/** What JSON.parse gives: a string in one piece. */
function flat(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

function sliced(count: Count): Count {
  return (text) => {
    let tokens = 0;
    for (let start = 0; start < text.length; start += SLICE_UNITS) {
      tokens += count(text.slice(start, start + SLICE_UNITS));
    }
    return tokens;
  };
}

/** CPU time of this process in microseconds: what other processes take of the machine does not show in it. */
function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] as number;
}

function compare(encoding: Encoding, kind: string, makePrompt: () => string): void {
  const reference = get_encoding(encoding);
  const counters: Readonly<Record<string, Count>> = {
    perigee: (text) => countTokens(encoding, text),
    tiktoken: (text) => reference.encode_ordinary(text).length,
  };
  const rates: Record<string, number[]> = { perigee: [], tiktoken: [] };
  for (let round = 0; round <= ROUNDS; round++) {
    const prompts = Array.from({ length: PROMPTS }, makePrompt);
    const totals = Object.entries(counters).map(([name, count]) => {
      const startUs = cpuUs();
      let tokens = 0;
      for (const prompt of prompts) tokens += count(prompt);
      // The first round warms up.
      if (round > 0) rates[name]?.push(tokens / (cpuUs() - startUs));
      return tokens;
    });
    if (new Set(totals).size !== 1) throw new Error(`counts differ: ${totals}`);
  }
  reference.free();
  const own = median(rates["perigee"] ?? []);
  const theirs = median(rates["tiktoken"] ?? []);
  console.log(
    `${encoding.padEnd(12)} ${kind.padEnd(13)} perigee ${own.toFixed(1)} M tokens/s, tiktoken ${theirs.toFixed(1)}, ratio ${(own / theirs).toFixed(1)}`,
  );
}

function countHostile(encoding: Encoding): void {
  const reference = get_encoding(encoding);
  const bySlices = sliced((text) => reference.encode_ordinary(text).length);
  const letters = Array.from({ length: 100_000 }, () => String.fromCharCode(97 + random() * 26)).join("");
  const base64 = Buffer.from(Array.from({ length: 75_000 }, () => random() * 256)).toString("base64");
  const texts: readonly (readonly [string, string])[] = [
    ...["a", " ", "\n", "_", "中", "中文字符", "👩‍👩‍👧‍👦", "ภาษาไทย"].map(
      (unit) =>
        [JSON.stringify(unit), unit.repeat(Math.ceil(100_000 / unit.length)).slice(0, 100_000)] as const,
    ),
    ["letters", letters],
    ["base64", base64],
  ];
  for (const [name, text] of texts) {
    const startUs = cpuUs();
    const tokens = countTokens(encoding, flat(text));
    const middleUs = cpuUs();
    const theirs = bySlices(text);
    const endUs = cpuUs();
    if (Math.abs(theirs - tokens) > tokens / 100)
      throw new Error(`${name}: ${tokens} tokens, ${theirs} in slices`);
    console.log(
      `${encoding.padEnd(12)} 100,000 x ${name.padEnd(14)} perigee ${((middleUs - startUs) / 1000).toFixed(1)} ms, ` +
        `tiktoken in slices of ${SLICE_UNITS} ${((endUs - middleUs) / 1000).toFixed(0)} ms`,
    );
  }
  reference.free();
}

for (const encoding of ["o200k_base", "cl100k_base"] as const) {
  compare(encoding, "English", englishPrompt);
  compare(encoding, "multilingual", multilingualPrompt);
  countHostile(encoding);
}
