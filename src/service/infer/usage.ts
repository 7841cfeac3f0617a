/**
 * GET /v0/usage: what the project used, day by day, and what is left of its money this month.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { moneyBody } from "../../price/money.ts";
import { dayOf } from "../../price/rates.ts";
import { z } from "../../schema.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage } from "../../tasks/usage/project_usage.ts";
import type { Spending } from "../../tasks/usage/spending.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { moneyFields } from "../shapes/money_schema.ts";

const DAY_MS = 86_400_000;
/** Days that are shown unless others are requested. */
const DAYS = 31;
const DAYS_MAX = 400;

const day = z.iso.date().describe("UTC day, both included; at most 400 days. Default: the last 31 days.");
const usageQuery = z.strictObject({ from: day.optional(), to: day.optional() });
const usage = {
  items: z.number().int().min(0),
  input_tokens: z.number().int().min(0),
  output_tokens: z.number().int().min(0),
  ...moneyFields,
};
const usageAnswer = z
  .object({
    project: z.string(),
    from: z.string(),
    to: z.string(),
    ...usage,
    days: z.array(z.object({ day: z.string(), ...usage })),
    month: z.object({
      spent_usd: z.number().describe("Billed by providers or in doubt: what the cap counts."),
      held_usd: z.number().describe("Kept for accepted work that is not answered yet."),
      cap_usd: z.number().nullable(),
    }),
  })
  .meta({ id: "Usage" });

interface UsageRequest {
  Querystring: { readonly from?: string; readonly to?: string };
}

/** Usage and money of the caller's project, by UTC day and month. */
export function registerUsageRoutes(
  app: FastifyInstance,
  clock: Pick<Clock, "wallMs">,
  spending: Pick<Spending, "usage">,
): void {
  app.get<UsageRequest>("/v0/usage", {
    config: { scope: "infer:read" },
    schema: {
      summary: "What the project used and what it cost",
      tags: ["inference"],
      querystring: usageQuery,
      response: { 200: usageAnswer },
    },
    handler: async ({ caller: { project }, query }) => {
      const to = query.to ?? dayOf(clock.wallMs());
      const from = query.from ?? dayOf(Date.parse(to) - (DAYS - 1) * DAY_MS);
      checkDays(from, to);
      const { days, month } = await spending.usage(project, from, to);
      return {
        project,
        from,
        to,
        ...usageBody(days.reduce<ProjectUsage>(addUsage, NO_PROJECT_USAGE)),
        days: days.map((one) => ({ day: one.day, ...usageBody(one) })),
        month: { spent_usd: month.spentUsd, held_usd: month.heldUsd, cap_usd: month.capUsd ?? null },
      };
    },
  });
}

function usageBody(usage: ProjectUsage): Record<string, number> {
  const { items, inputTokens, outputTokens } = usage;
  return { items, input_tokens: inputTokens, output_tokens: outputTokens, ...moneyBody(usage) };
}

function checkDays(from: string, to: string): void {
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;
  if (days >= 1 && days <= DAYS_MAX) return;
  throw new PerigeeError("usage", `from must be a day before to, at most ${DAYS_MAX} days`, {
    details: { param: "from" },
  });
}
