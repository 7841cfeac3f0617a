/**
 * GET /v0/usage: what the project's tasks came to.
 *
 * Limits: the newest 10,000 tasks; `is_complete` says whether there are older ones.
 */
import { z } from "../schema.ts";
import type { TaskView } from "../tasks/task_view.ts";
import type { Tasks } from "../tasks/tasks.ts";
import type { ServiceContext } from "./context.ts";
import type { FastifyInstance } from "./fastify.ts";

const PAGE = 1_000;
const PAGES_MAX = 10;

const whole = z.number().int().min(0);
const usageAnswer = z
  .object({
    project: z.string(),
    tasks: whole,
    items: whole,
    counts: z.object({
      submitted: whole,
      completed: whole,
      failed: whole,
      expired: whole,
      cancelled: whole,
    }),
    input_tokens: whole,
    output_tokens: whole,
    list_usd: z.number().describe("At list price."),
    usd: z.number().describe("After the price factors."),
    saved_usd: z.number(),
    is_complete: z.boolean().describe("False: there are older tasks, which are not counted."),
  })
  .meta({ id: "Usage" });

interface Totals {
  tasks: number;
  items: number;
  readonly counts: Record<keyof TaskView["counts"], number>;
  inputTokens: number;
  outputTokens: number;
  listUsd: number;
  usd: number;
}

export function registerUsageRoutes(app: FastifyInstance, { tasks }: ServiceContext): void {
  app.get("/v0/usage", {
    config: { scope: "infer:read" },
    schema: { summary: "What the project used", tags: ["inference"], response: { 200: usageAnswer } },
    handler: async ({ caller: { project } }) => {
      const { totals, isComplete } = await sumOf(tasks, project);
      const { inputTokens, outputTokens, listUsd, usd, ...rest } = totals;
      return {
        project,
        ...rest,
        input_tokens: inputTokens,
        output_tokens: outputTokens,
        list_usd: listUsd,
        usd,
        saved_usd: Math.max(0, listUsd - usd),
        is_complete: isComplete,
      };
    },
  });
}

async function sumOf(tasks: Tasks, project: string): Promise<{ totals: Totals; isComplete: boolean }> {
  const counts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
  const totals: Totals = { tasks: 0, items: 0, counts, inputTokens: 0, outputTokens: 0, listUsd: 0, usd: 0 };
  let after: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const found = await tasks.list(project, { limit: PAGE, ...(after === undefined ? {} : { after }) });
    for (const task of found.items) add(totals, task);
    after = found.items.at(-1)?.id;
    if (!found.hasMore) return { totals, isComplete: true };
  }
  return { totals, isComplete: false };
}

function add(totals: Totals, { totalItems, counts, usage }: TaskView): void {
  totals.tasks += 1;
  totals.items += totalItems;
  for (const status of Object.keys(counts) as (keyof typeof counts)[])
    totals.counts[status] += counts[status];
  totals.inputTokens += usage.inputTokens;
  totals.outputTokens += usage.outputTokens;
  totals.listUsd += usage.listUsd;
  totals.usd += usage.usd;
}
