/** Writing: the output line of an answer with all its facts; beside it JSON.stringify of the same line. */
import { completedLine, wholeLine } from "../../src/jsonl/write.ts";
import type { PartBench } from "../shared/harness.ts";

const CALLS = 5_000;
const TEXT = "word ".repeat(60);
const ANSWER = {
  finish: "stop",
  members: undefined,
  attempts: 1,
  output: { type: "text", text: TEXT },
} as const;
const FACTS = {
  used: {
    inputTokens: 230,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 58,
    reasoningTokens: 0,
    listUsd: 0.0000693,
    billedUsd: 0.0000693,
    ambiguousUsd: 0,
    isEstimated: false,
  },
  priceVersion: "genai-prices 0.1.8",
  last: {
    latencyMs: 412.31,
    model: "gpt-4o-mini-2024-07-18",
    requestId: "req_1f2e3d4c5b6a",
    servedTier: "default",
  },
  requestedModel: "openai:gpt-4o-mini",
};

export function open(): PartBench {
  const line: unknown = JSON.parse(wholeLine(completedLine('"item-000000"', ANSWER, FACTS)));
  const times = (write: () => string) => () => {
    let length = 0;
    for (let each = 0; each < CALLS; each += 1) length += Buffer.byteLength(write());
    return length;
  };
  return {
    parts: [
      {
        name: "write: a line of 300 characters",
        of: "line",
        calls: CALLS,
        run: times(() => wholeLine(completedLine('"item-000000"', ANSWER, FACTS))),
        beside: { name: "JSON.stringify alone", run: times(() => `${JSON.stringify(line)}\n`) },
      },
    ],
  };
}
