/**
 * GET /v0/margin: what callers were charged, what they got back and what providers billed, by project and model.
 *
 *   margin = charged - refund - billed          what is in doubt is beside it
 *
 * Each project's sums are those of its GET /v0/usage, to the nano-dollar. What is of no model is shown with the model null: open work,
 * items that were never sent, and days from before models were recorded.
 */
import type { Clock } from "../../clock.ts";
import { nanoOf, usdOfNano } from "../../price/nano.ts";
import { addSale, lessSale, NO_SALE, NO_SALES, type Sale } from "../../price/sales.ts";
import { z } from "../../schema.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage } from "../../tasks/usage/project_usage.ts";
import type { Spending } from "../../tasks/usage/spending.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { type DayQuery, dayFields, daysOf } from "../shapes/days.ts";

const usd = z.number().describe("USD, exact to the nano-dollar.");
const sums = {
  items: z.number().int().describe("Items that have ended."),
  list_usd: usd.describe("Their usage at the providers' list price."),
  charged_usd: usd.describe("What callers were charged: list price times price factor."),
  refund_usd: usd.describe("What they got back of it, for items that missed their deadlines."),
  billed_usd: usd.describe("What providers bill."),
  ambiguous_usd: usd.describe("The most that attempts of unknown end may have cost besides."),
  margin_usd: usd.describe("Charged, less refunds, less billed; below 0 where work was sold below its cost."),
};
const marginAnswer = z
  .object({
    from: z.string(),
    to: z.string(),
    ...sums,
    projects: z.array(
      z.object({
        project: z.string(),
        ...sums,
        models: z.array(
          z.object({
            model: z
              .string()
              .nullable()
              .describe(
                "`<provider>:<name>` that answered; null: open work, and items that were never sent.",
              ),
            ...sums,
          }),
        ),
      }),
    ),
  })
  .meta({ id: "Margin" });

/** Sums of an answer's body; `items` is a count, the rest are USD. */
interface MarginSums {
  readonly items: number;
  readonly list_usd: number;
  readonly charged_usd: number;
  readonly refund_usd: number;
  readonly billed_usd: number;
  readonly ambiguous_usd: number;
  readonly margin_usd: number;
}

/** The body of an answer. */
export interface MarginAnswer extends MarginSums {
  readonly from: string;
  readonly to: string;
  readonly projects: readonly (MarginSums & { readonly project: string })[];
}

/** The answers of several owners of projects as one, for the same days. No two have the same project. */
export function joinedMargins(answers: readonly MarginAnswer[]): MarginAnswer {
  const [first] = answers as [MarginAnswer]; // there is one
  const names = Object.keys(sums) as (keyof MarginSums)[]; // the same names
  const total = (name: keyof MarginSums): number => {
    if (name === "items") return answers.reduce((sum, { items }) => sum + items, 0);
    return usdOfNano(answers.reduce((sum, each) => sum + nanoOf(each[name]), nanoOf(0)));
  };
  const projects = answers.flatMap((answer) => answer.projects);
  return {
    ...first,
    ...Object.fromEntries(names.map((name) => [name, total(name)])),
    projects: projects.toSorted((one, other) => (one.project < other.project ? -1 : 1)),
  };
}

const query = z.strictObject({ ...dayFields, project: z.string().min(1).optional() });

/** Of all projects, for the operator. */
export function registerMarginRoutes(
  app: FastifyInstance,
  clock: Pick<Clock, "wallMs">,
  spending: Pick<Spending, "days" | "projects">,
): void {
  app.get<{ Querystring: DayQuery & { readonly project?: string } }>("/v0/margin", {
    config: { scope: "admin" },
    schema: {
      summary: "What was charged, refunded and billed, by project and model",
      description: "Of all projects, or of the one that `project` names. For keys with the scope `admin`.",
      tags: ["operation"],
      querystring: query,
      response: { 200: marginAnswer },
    },
    handler: async ({ query: asked }) => {
      const { from, to } = daysOf(asked, clock);
      const projects = [];
      let all = NO_SALE;
      for (const project of asked.project === undefined
        ? await spending.projects(from, to)
        : [asked.project]) {
        const days = await spending.days(project, from, to);
        if (days.length === 0) continue;
        const usage = days.reduce<ProjectUsage>(addUsage, NO_PROJECT_USAGE);
        const sale = { ...usage, refundUsd: usage.refundUsd ?? 0 };
        all = addSale(all, sale);
        projects.push({ project, ...saleBody(sale), models: modelBodies(usage, sale) });
      }
      return { from, to, ...saleBody(all), projects };
    },
  });
}

/** The models in order; what is of none last, if there is anything. */
function modelBodies({ models = NO_SALES }: ProjectUsage, sale: Sale) {
  const known = Object.entries(models).sort(([one], [other]) => (one < other ? -1 : 1));
  const rest = known.reduce((left, [, each]) => lessSale(left, each), sale);
  const bodies: { model: string | null }[] = known.map(([model, each]) => ({ model, ...saleBody(each) }));
  return isNothing(rest) ? bodies : [...bodies, { model: null, ...saleBody(rest) }];
}

function isNothing({
  items,
  inputTokens,
  outputTokens,
  listUsd,
  usd: charged,
  billedUsd,
  ambiguousUsd,
}: Sale): boolean {
  return [items, inputTokens, outputTokens, listUsd, charged, billedUsd, ambiguousUsd].every(
    (each) => each === 0,
  );
}

function saleBody({ items, listUsd, usd: chargedUsd, refundUsd, billedUsd, ambiguousUsd }: Sale) {
  return {
    items,
    list_usd: listUsd,
    charged_usd: chargedUsd,
    refund_usd: refundUsd,
    billed_usd: billedUsd,
    ambiguous_usd: ambiguousUsd,
    margin_usd: usdOfNano(nanoOf(chargedUsd) - nanoOf(refundUsd) - nanoOf(billedUsd)),
  };
}
