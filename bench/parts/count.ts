/**
 * Counting: tokens of prompts of 600 bytes (compiled, from dist), beside tiktoken's `encode_ordinary`; `npm run build` first.
 *
 * Prompts are made fresh, so that no round sees a text twice; words follow a Zipf-like law. Wanted: 20 million tokens/s on English.
 */
import { get_encoding } from "tiktoken";
import type { Part, PartBench } from "../shared/harness.ts";

type Encoding = "o200k_base" | "cl100k_base";

const PROMPTS = 500;
const PROMPT_BYTES = 600;
const POOL_PROMPTS = 20_000;

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

let seed = 42;
function random(): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

export async function open(): Promise<PartBench> {
  const entrance = new URL("../../dist/tokens/count.js", import.meta.url).href;
  const { countTokens } = (await import(entrance)) as {
    countTokens(encoding: Encoding, text: string): number;
  };
  const closing: (() => void)[] = [];
  const parts = (["o200k_base", "cl100k_base"] as const).flatMap((encoding): readonly Part[] => {
    const reference = get_encoding(encoding);
    closing.push(() => reference.free());
    return [
      ["English", englishPrompt],
      ["eight scripts", multilingualPrompt],
    ].map(([kind, prompt]) => {
      const texts = Array.from({ length: POOL_PROMPTS }, prompt as () => string);
      const sample = texts.slice(0, PROMPTS);
      const tokens = sum(sample, (text) => countTokens(encoding, text));
      if (tokens !== sum(sample, (text) => reference.encode_ordinary(text).length))
        throw new Error("counts differ");
      return {
        name: `count: ${kind}, ${encoding} (${Math.round(tokens / PROMPTS)} tokens)`,
        of: "prompt",
        calls: PROMPTS,
        run: inTurn(texts, (text) => countTokens(encoding, text)),
        beside: { name: "tiktoken", run: inTurn(texts, (text) => reference.encode_ordinary(text).length) },
      };
    });
  });
  return {
    parts,
    close: () => {
      for (const free of closing) free();
    },
  };
}

/** Each round has the next prompts of the pool. */
function inTurn(texts: readonly string[], count: (text: string) => number): () => number {
  let next = 0;
  return () => {
    next = (next + PROMPTS) % (texts.length - PROMPTS);
    return sum(texts.slice(next, next + PROMPTS), count);
  };
}

function sum(texts: readonly string[], count: (text: string) => number): number {
  return texts.reduce((total, text) => total + count(text), 0);
}

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
    text += `${sentence.slice(Math.floor(random() * 12))} ${Math.floor(random() * 1000)} `;
  }
  return flat(text);
}

/** What JSON.parse gives: a string in one piece. */
function flat(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
