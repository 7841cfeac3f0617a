/**
 * What `JSON.parse` keeps of short texts, in a thread that notes its lines.
 */
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { expect, it } from "vitest";
import { noteParsedLines } from "../../src/large_bytes.ts";

it("keeps the table of short texts small, however many lines with different keys are parsed", () => {
  setFlagsFromString("--expose-gc");
  const before = getHeapStatistics().malloced_memory;
  for (let line = 0; line < 300_000; line += 1) {
    JSON.parse(`{"key":"${line}"}`);
    if (line % 1_000 === 999) noteParsedLines(1_000);
  }
  // Without the collections it holds 300,000 texts.
  expect(getHeapStatistics().malloced_memory - before).toBeLessThan(4 * 1024 * 1024);
});
