/** JSON Schemas of others: their compilation and their checks end, whatever they say. */
import { beforeAll, describe, expect, it } from "vitest";
import { fitted, stillFits } from "../src/engine/schemas/answer_fit.ts";
import { answerCheck, loadValidators, UnendingCheck } from "../src/json_schema.ts";

/** Of a schema: that objects with `x` must fit what is at `$ref`. */
const withX = ($ref: string): object => ({
  if: { not: { type: "object", required: ["x"] } },
  else: { $ref },
});
const ENDLESS = JSON.stringify(withX("#"));
const X = { x: 1 };

/** For objects with `x`: `levels` definitions, each of which applies the one below it twice: 2^levels steps for one value. */
function doubled(levels: number): string {
  const twice = (below: number): object => ({
    anyOf: [{ $ref: `#/$defs/d${below}` }, { $ref: `#/$defs/d${below}` }],
  });
  const above = Array.from({ length: levels }, (_, index) => [`d${index + 1}`, twice(index)]);
  const $defs = Object.fromEntries([["d0", { type: "number" }], ...above]);
  return JSON.stringify({ $defs, ...withX(`#/$defs/d${levels}`) });
}

describe("a schema of others", () => {
  beforeAll(loadValidators);

  it("is not checked for longer than a second, even if its definitions double each other", () => {
    const check = answerCheck(doubled(30));
    expect(() => check.fault(X)).toThrow(UnendingCheck);
  });

  it("is not tried any more once its checks took too long five times", () => {
    const check = answerCheck(doubled(31));
    for (let time = 0; time < 5; time += 1) expect(() => check.fault(X)).toThrow(/longer than 1 s/);
    const startedMs = process.cpuUsage().user / 1_000;
    expect(() => check.fault(X)).toThrow(/took several seconds together/);
    expect(process.cpuUsage().user / 1_000 - startedMs).toBeLessThan(500);
  }, 30_000);

  it("that refers to itself without end is a fault of the schema, not of the process", () => {
    const check = answerCheck(ENDLESS);
    expect(() => check.fault(X)).toThrow(/leads to itself without end/);
    expect(check.fault({})).toBeUndefined();
  });

  it.each([
    ['{"$ref":"#"}', /leads to itself without end/],
    [JSON.stringify({ $ref: "#/else", ...JSON.parse(doubled(32)) }), /longer than 1 s/],
  ])("is refused when its check does not end for the simplest values", (json, reason) => {
    expect(() => answerCheck(json)).toThrow(reason);
  });

  it("checks values that a recursive schema describes", () => {
    const node = { type: "object", properties: { next: { $ref: "#" } }, required: ["name"] };
    const check = answerCheck(JSON.stringify(node));
    expect(check.fault({ name: "a", next: { name: "b" } })).toBeUndefined();
    expect(check.fault({ name: "a", next: {} })).toBe("/next: must have required property 'name'");
  });

  it("is refused when it takes too long to compile, and those after it are not", () => {
    const slow = Array.from({ length: 30_000 }, (_, index) => [`^p${index}(x|y)*$`, {}]);
    const json = JSON.stringify({ patternProperties: Object.fromEntries(slow) });
    expect(() => answerCheck(json)).toThrow(/takes longer than 5 s to compile/);
    expect(answerCheck('{"type":"number"}').fault("x")).toBe("/: must be number");
  }, 30_000);
});

describe("an answer to a schema whose check does not end", () => {
  beforeAll(loadValidators);

  it("does not fit, and is not asked for again", () => {
    const answer = { class: "success", text: '{"x":1}', message: "", scope: "item", latencyMs: 1 } as const;
    const provider = { settings: { name: "openai", protocol: "openai", baseUrl: "" } } as const;
    expect(fitted(answer, answerCheck(ENDLESS), provider)).toMatchObject({
      class: "unfit",
      isFinal: true,
      message: 'the answer does not fit its schema: a "$ref" of it leads to itself without end',
    });
  });

  it("is not taken from a cache", () => {
    expect(stillFits(answerCheck(ENDLESS), '{"x":1}')).toBe(false);
    expect(stillFits(answerCheck('{"$ref":"#/$defs/n","$defs":{"n":{"type":"number"}}}'), "12")).toBe(true);
  });
});
