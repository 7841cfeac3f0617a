/** The interface's limits (8): the bounds of an sla, and the price factor that follows from it and from the volume. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Call, FACTOR, line, lines, type Service, startService, submit, upload } from "./serving.ts";

const ITEM = { model: "echo:small", input: "What is a quark?" };
const SLAS = [1, 2, 5, 15, 60, 240, 1440, 10_080, 43_200];

let service: Service;
let call: Call;

beforeAll(async () => {
  service = await startService({
    PERIGEE_PROVIDER_NARROW_BASE_URL: "http://127.0.0.1:9/v1",
    PERIGEE_LIMIT_NARROW_RPM: "1",
  });
  call = service.caller(`Bearer ${(await service.createKey("acme")).key}`);
});
afterAll(() => service.stop());

async function factors(items: readonly unknown[]): Promise<number[]> {
  const { status, body } = await submit(call, items);
  expect(status).toBe(200);
  return body.objects.map((object) => object.usage.price_factor);
}

function expectNeverRising(values: readonly number[]): void {
  expect(values).toEqual([...values].sort((a, b) => b - a));
}

describe("8 sla", () => {
  it.each([1, 43_200])("%d minutes are taken", async (sla) => {
    expect(await submit(call, [{ ...ITEM, sla }])).toMatchObject({ status: 200 });
  });

  it.each([0, -1, 43_201, 1.5, "60", "1h", null, true, [60], 1e300])("%j is refused", async (sla) => {
    for (const item of [
      { ...ITEM, sla },
      { file_id: "00000000-0000-4000-8000-000000000000", sla },
    ]) {
      expect(await submit(call, [item])).toMatchObject({
        status: 422,
        body: { error: { param: expect.stringContaining("sla") }, request_id: expect.any(String) },
      });
    }
  });

  it("one item that is refused refuses the request, and nothing is made", async () => {
    const answer = await submit(call, [ITEM, { ...ITEM, sla: 0 }]);
    expect(answer.status).toBe(422);
    expect(answer.body).not.toHaveProperty("task_id");
  });

  it("one that cannot be kept is refused with the earliest that can, which is taken", async () => {
    const items = Array.from({ length: 30 }, () => ({ model: "narrow:model", input: "x", sla: 2 }));
    const answer = await submit(call, items);
    expect(answer).toMatchObject({ status: 429, body: { error: { code: "sla_infeasible" } } });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    const sla = answer.body.error.earliest_sla_minutes;
    expect(sla).toBeGreaterThan(2);
    expect(
      await submit(
        call,
        items.map((item) => ({ ...item, sla })),
      ),
    ).toMatchObject({ status: 200 });
  });
});

describe("8 price factor", () => {
  it("lies within 0.3 and 1 for every sla", async () => {
    const values = await factors(SLAS.map((sla) => ({ ...ITEM, sla })));
    expect(values).toEqual(SLAS.map(() => FACTOR));
  });

  it("is 1 without an sla, inline and in a file", async () => {
    expect(await factors([ITEM, ITEM])).toEqual([1, 1]);
    const file = await upload(call, "in.jsonl", lines(line("a", "x"), line("b", "y")));
    expect(await factors([{ file_id: file.body.file_id }])).toEqual([1, 1]);
  });

  it("never rises with the sla, and is lower for a day than for a minute", async () => {
    const values: number[] = [];
    for (const sla of SLAS) values.push(...(await factors([{ ...ITEM, sla }])));
    expectNeverRising(values);
    expect(values.at(-1)).toBeLessThan(values[0] as number);
  });

  it("never rises with the sla among items of one request", async () => {
    expectNeverRising(await factors(SLAS.map((sla) => ({ ...ITEM, sla }))));
  });

  it("never rises with the volume, and is lower for much than for little", async () => {
    const input = "word ".repeat(800);
    const values: number[] = [];
    for (const items of [1, 10, 100, 2000]) {
      const [factor] = await factors(Array.from({ length: items }, () => ({ ...ITEM, input, sla: 10_080 })));
      values.push(factor as number);
    }
    expectNeverRising(values);
    expect(values.at(-1)).toBeLessThan(values[0] as number);
  });

  it("never rises with the volume of a file", async () => {
    const values: number[] = [];
    for (const count of [1, 100, 1000]) {
      const text = lines(
        ...Array.from({ length: count }, (_, index) => line(`k${index}`, "word ".repeat(800))),
      );
      const file = await upload(call, "in.jsonl", text);
      const [factor] = await factors([{ file_id: file.body.file_id, sla: 10_080 }]);
      values.push(factor as number);
    }
    expectNeverRising(values);
    expect(values).toEqual(values.map(() => FACTOR));
  });

  it("is the same for all items of one model, sla and request", async () => {
    const values = await factors([
      { ...ITEM, sla: 60 },
      { ...ITEM, input: "something longer than the other", sla: 60 },
    ]);
    expect(new Set(values).size).toBe(1);
  });
});
