/** Templates of webhooks that would make more of a value than there is room for. */
import { describe, expect, it } from "vitest";
import { fillJson, fillText } from "../../../src/satellites/builtin/call_webhook/template.ts";

const text = "x".repeat(500_000);
const times = (count: number) => "{{a}}".repeat(count);

describe("a template that multiplies a value", () => {
  it("is refused before it is written out", () => {
    const failure = { failure: "permanent", code: "too_large" };
    const before = process.memoryUsage().heapUsed;
    const refusals: (() => unknown)[] = [
      () => fillText(times(1_000), { a: text }, (one) => one),
      () => fillText(times(10), { a: "<".repeat(100_000) }, (one) => one.replaceAll("<", "&lt;&lt;")),
      () => fillJson({ list: Array.from({ length: 1_000 }, () => "{{a}}") }, { a: text }),
      () => fillJson({ list: Array.from({ length: 1_000 }, () => "-{{a}}") }, { a: text }),
    ];
    for (const refuse of refusals) expect(refuse).toThrow(expect.objectContaining(failure));
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * 1024 * 1024);
  });

  it("is filled in as long as there is room", () => {
    expect(fillText(times(8), { a: text }, (one) => one)).toHaveLength(4_000_000);
  });
});
