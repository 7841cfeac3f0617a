/** Prices that cover the cost of the work, and `GET /v0/margin`, which equals usage and receipts to the nano-dollar. */
import { describe, expect, it } from "vitest";
import { registerMarginRoutes } from "../../src/service/infer/margin.ts";
import { NO_PROJECT_USAGE } from "../../src/tasks/usage/project_usage.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { bareApp } from "./app.ts";
import { openWhole } from "./whole.ts";

const PRICES = { inputUsdPerMillion: 0.7, outputUsdPerMillion: 1.3 };
const whole = await openWhole({
  config: {
    prices: {
      ...{ "echo:priced": PRICES, "echo:other": PRICES },
      ...{ "openai:gpt-4.1-mini": PRICES, "anthropic:claude-haiku-4-5": PRICES },
    },
    providers: {
      openai: { key: "sk-none" },
      anthropic: { key: "sk-none", baseUrl: "http://127.0.0.1:9" },
    },
    margin: 0.1,
    projects: { other: { sellBelowCost: true } },
  },
});

interface Sums {
  readonly items: number;
  readonly list_usd: number;
  readonly usd: number;
  readonly charged_usd: number;
  readonly refund_usd: number;
  readonly billed_usd: number;
  readonly ambiguous_usd: number;
  readonly margin_usd: number;
}
interface Margin extends Sums {
  readonly projects: readonly (Sums & {
    readonly project: string;
    readonly models: readonly (Sums & { readonly model: string | null })[];
  })[];
}
interface Posted {
  readonly objects: readonly {
    readonly object_id: string;
    readonly usage: { readonly price_factor: number };
  }[];
}
interface Quoted {
  readonly slas: readonly {
    readonly sla_minutes: number;
    readonly price_factor: number;
    readonly billed_usd: number;
  }[];
  readonly list_usd: number;
}

const nano = (usd: number): number => Math.round(usd * 1e9);
const sumOf = (all: readonly Sums[], of: (sums: Sums) => number): number =>
  all.reduce((sum, each) => sum + nano(of(each)), 0);

async function get<T>(path: string, key: string): Promise<T> {
  return JSON.parse((await whole.call("GET", path, { key })).text) as T;
}

async function post<T>(path: string, key: string, body: unknown): Promise<T> {
  return JSON.parse((await whole.call("POST", path, { key, body })).text) as T;
}

describe("GET /v0/margin", () => {
  it("is for operators", async () => {
    const statusOf = async (key: string) => (await whole.call("GET", "/v0/margin", { key })).status;
    expect([await statusOf("own"), await statusOf("operator"), await statusOf("nobody")]).toEqual([
      403, 200, 401,
    ]);
  });

  it("sums by project and model to what usage and receipts say", async () => {
    const items = ["echo:priced", "echo:other", "echo:priced", "echo:free"].map((model) => ({
      model,
      input: "x",
    }));
    const { objects } = await post<Posted>("/v0/infer/", "own", items);
    await post("/v0/infer/", "other", [{ model: "echo:priced", input: "a longer text" }]);
    const margin = await get<Margin>("/v0/margin", "operator");
    const usage = { own: await get<Sums>("/v0/usage", "own"), other: await get<Sums>("/v0/usage", "other") };
    expect(margin.projects.map(({ project }) => project)).toEqual(["other", "own"]);
    for (const { project, models, ...sums } of margin.projects) {
      const { items: count, list_usd, usd, refund_usd, billed_usd, ambiguous_usd } = usage[project as "own"];
      expect(sums).toMatchObject({
        items: count,
        list_usd,
        charged_usd: usd,
        refund_usd,
        billed_usd,
        ambiguous_usd,
      });
      for (const name of [
        "items",
        "list_usd",
        "charged_usd",
        "refund_usd",
        "billed_usd",
        "margin_usd",
      ] as const)
        expect([name, sumOf(models, (each) => each[name])]).toEqual([name, nano(sums[name])]);
      expect(nano(sums.margin_usd)).toBe(
        nano(sums.charged_usd) - nano(sums.refund_usd) - nano(sums.billed_usd),
      );
    }
    expect(sumOf(margin.projects, (each) => each.billed_usd)).toBe(nano(margin.billed_usd));
    const own = margin.projects[1];
    expect(own?.models.map(({ model, items: count }) => [model, count])).toEqual([
      ["echo:free", 1],
      ["echo:other", 1],
      ["echo:priced", 2],
    ]);
    let receipts = 0;
    for (const { object_id } of objects) {
      const receipt = await get<{ billed_nano_usd: number }>(`/v0/infer/object/${object_id}/receipt`, "own");
      receipts += receipt.billed_nano_usd;
    }
    expect(nano(own?.billed_usd ?? 0)).toBe(receipts);
    expect(receipts).toBeGreaterThan(0);
  });

  it("shows one project, and the days that are asked for", async () => {
    await post("/v0/infer/", "own", [{ model: "echo:priced", input: "x" }]);
    const one = await get<Margin>("/v0/margin?project=own", "operator");
    expect(one.projects.map(({ project }) => project)).toEqual(["own"]);
    const before = await get<Margin>("/v0/margin?from=2020-01-01&to=2020-01-31", "operator");
    expect(before).toMatchObject({ from: "2020-01-01", to: "2020-01-31", items: 0, projects: [] });
    const wrong = await whole.call("GET", "/v0/margin?from=2020-01-02&to=2020-01-01", { key: "operator" });
    expect(wrong.status).toBe(422);
  });

  it("shows what is of no model by itself, and refunds as a loss", async () => {
    const sale = {
      items: 1,
      inputTokens: 4,
      outputTokens: 2,
      listUsd: 0.4,
      usd: 0.2,
      billedUsd: 0.15,
      ambiguousUsd: 0,
    };
    const models = { "a:b": { ...sale, refundUsd: 0.1 } };
    const usage = { ...NO_PROJECT_USAGE, ...sale, items: 3, usd: 0.3, refundUsd: 0.1, models };
    const spending = {
      projects: async () => ["acme"],
      days: async () => [{ ...usage, day: "2026-11-26" }],
    };
    const app = bareApp({}, (made) => registerMarginRoutes(made, new FakeClock(), spending));
    const answer = await app.inject({ url: "/v0/margin", headers: { authorization: "Bearer one" } });
    await app.close();
    expect(answer.json()).toMatchObject({
      charged_usd: 0.3,
      refund_usd: 0.1,
      billed_usd: 0.15,
      margin_usd: 0.05,
    });
    expect(answer.json().projects[0].models).toMatchObject([
      { model: "a:b", items: 1, charged_usd: 0.2, refund_usd: 0.1, margin_usd: -0.05 },
      { model: null, items: 2, charged_usd: 0.1, refund_usd: 0, billed_usd: 0, margin_usd: 0.1 },
    ]);
  });
});

describe("a quoted price factor", () => {
  const SLAS = [1, 15, 60, 240, 1_440, 10_080, 43_200];
  const itemsOf = (model: string, count: number) =>
    SLAS.flatMap((sla) => Array.from({ length: count }, () => ({ model, input: "a question", sla })));

  it.each(["echo:priced", "openai:gpt-4.1-mini"])(
    "of %s covers the expected cost and the margin, and never rises",
    async (model) => {
      const { slas, list_usd } = await post<Quoted>("/v0/quote", "own", itemsOf(model, 3));
      const factors = slas.map(({ price_factor }) => price_factor);
      expect(factors).toEqual([...factors].sort((one, other) => other - one));
      for (const { price_factor, billed_usd } of slas) {
        expect(price_factor).toBeGreaterThanOrEqual(Math.min(1, (1.1 * billed_usd) / list_usd) - 1e-9);
        expect(price_factor).toBeLessThanOrEqual(1);
      }
    },
  );

  it("never rises with the volume", async () => {
    const factorsOf = async (count: number): Promise<number[]> =>
      (await post<Quoted>("/v0/quote", "own", itemsOf("openai:gpt-4.1-mini", count))).slas.map(
        ({ price_factor }) => price_factor,
      );
    const [few, many] = [await factorsOf(1), await factorsOf(300)];
    for (const [index, factor] of many.entries()) expect(factor).toBeLessThanOrEqual(few[index] as number);
  });

  it("of a few posted items has no batches in it, because none takes them", async () => {
    const few = Array.from({ length: 3 }, () => ({
      ...{ model: "anthropic:claude-haiku-4-5", input: "a question", sla: 1_440 },
    }));
    const dayOf = async (items: readonly object[]) =>
      (await post<Quoted>("/v0/quote", "own", items)).slas.find(({ sla_minutes }) => sla_minutes === 1_440);
    const posted = await dayOf(few);
    const { objects } = await post<Posted>("/v0/infer/", "own", few);
    expect(objects.map(({ usage }) => usage.price_factor)).toEqual([1, 1, 1]);
    expect(posted).toMatchObject({ price_factor: 1 });
    const inLots = await dayOf([...few, { ...few[0], sla: 10_080 }]);
    expect(inLots?.price_factor).toBeCloseTo(0.55, 3);
  });

  it("is that of the task, and may be below the cost where the project is sold to so", async () => {
    const items = [{ model: "echo:priced", input: "x", sla: 1_440 }];
    const factorOf = async (key: string) =>
      (await post<Posted>("/v0/infer/", key, items)).objects[0]?.usage.price_factor;
    expect([await factorOf("own"), await factorOf("other")]).toEqual([1, 0.5]);
    const { slas } = await post<Quoted>("/v0/quote", "other", items);
    expect(slas.find(({ sla_minutes }) => sla_minutes === 1_440)?.price_factor).toBe(0.5);
  });
});
