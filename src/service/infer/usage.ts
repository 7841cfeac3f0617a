/**
 * GET /v0/usage: what the project used, day by day, and what is left of its money this month.
 */
import type { Clock } from "../../clock.ts";
import { moneyBody } from "../../price/money.ts";
import { z } from "../../schema.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage } from "../../tasks/usage/project_usage.ts";
import type { Spending } from "../../tasks/usage/spending.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { type DayQuery, dayFields, daysOf } from "../shapes/days.ts";
import { moneyFields } from "../shapes/money_schema.ts";

const usage = {
  items: z.number().int().min(0),
  input_tokens: z.number().int().min(0),
  output_tokens: z.number().int().min(0),
  ...moneyFields,
  refund_usd: z
    .number()
    .describe("What was given back of `usd`, for items of ended work that missed their deadlines."),
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

/** Usage and money of the caller's project, by UTC day and month. */
export function registerUsageRoutes(
  app: FastifyInstance,
  clock: Pick<Clock, "wallMs">,
  spending: Pick<Spending, "usage">,
): void {
  app.get<{ Querystring: DayQuery }>("/v0/usage", {
    config: { scope: "infer:read" },
    schema: {
      summary: "What the project used and what it cost",
      tags: ["inference"],
      querystring: z.strictObject(dayFields),
      response: { 200: usageAnswer },
    },
    handler: async ({ caller: { project }, query }) => {
      const { from, to } = daysOf(query, clock);
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
  const refunds = { refund_usd: usage.refundUsd ?? 0 };
  return { items, input_tokens: inputTokens, output_tokens: outputTokens, ...moneyBody(usage), ...refunds };
}
