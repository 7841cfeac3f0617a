/**
 * Decoding: an answer of 600 to 700 bytes, and the limits in its headers. Bounds: an answer 4 us, limits 1 us. Beside it JSON.parse.
 */

import { CODECS, type CodecCase, HEADERS } from "../shared/codec_cases.ts";
import type { Part, PartBench } from "../shared/harness.ts";

const CALLS = 2_000;

export function open(): PartBench {
  const openai = CODECS.find(({ name }) => name === "openai");
  if (openai === undefined) throw new Error("openai is a codec");
  const parse = { name: "JSON.parse alone", run: times(() => JSON.parse(text(openai.body))) };
  return {
    parts: [
      ...CODECS.map(answer),
      {
        name: "decode: limits in headers",
        of: "answer",
        calls: CALLS,
        run: times(() => openai.codec.limits(HEADERS)),
        beside: parse,
      },
    ],
  };
}

function answer({ name, codec, body }: CodecCase): Part {
  const given = { status: 200, headers: HEADERS, body, wallMs: 1_795_172_400_000 };
  if (codec.decode(given).class !== "success") throw new Error(`${name} must succeed`);
  return {
    name: `decode: ${name}`,
    of: "answer",
    calls: CALLS,
    run: times(() => codec.decode(given)),
    beside: { name: "JSON.parse alone", run: times(() => JSON.parse(text(body))) },
  };
}

function text(body: Uint8Array): string {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
}

function times(run: () => unknown): () => void {
  return () => {
    for (let each = 0; each < CALLS; each += 1) run();
  };
}
