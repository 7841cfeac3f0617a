/**
 * The schema of what a configuration says of lanes.
 */
import { nearest } from "../../nearest.ts";
import { offPeakDayFault } from "../../price/off_peak_days.ts";
import { isModelPattern } from "../../price/pattern.ts";
import { keepsRealtime, laneFault, REALTIME_NEEDED } from "../../queue/lane_choice.ts";
import { isPriorName, PRIOR_KINDS } from "../../queue/lane_priors.ts";
import { z } from "../../schema.ts";

const laneName = z.string().superRefine((name, context) => {
  const message = laneFault(name);
  if (message !== undefined) context.addIssue({ code: "custom", message });
});
const lists = { allow: z.array(laneName).optional(), deny: z.array(laneName).optional() };
const needsRealtime = { message: REALTIME_NEEDED, path: ["deny"] };

/** `{allow, deny}`. */
export const choicesSchema: z.ZodType<unknown> = z.strictObject(lists).refine(keepsRealtime, needsRealtime);

const seconds = z.number().positive();
const prior = z
  .strictObject({ p50: seconds, p90: seconds, p99: seconds })
  .refine(({ p50, p90, p99 }) => p50 <= p90 && p90 <= p99, {
    message: "quantiles must rise: p50 <= p90 <= p99",
  });
const priors = z.record(z.string(), prior).superRefine((given, context) => {
  for (const name of Object.keys(given)) {
    if (isPriorName(name)) continue;
    const near = nearest(name.slice(name.lastIndexOf(":") + 1), PRIOR_KINDS);
    const prefix = name.slice(0, name.lastIndexOf(":") + 1);
    const hint =
      near === undefined
        ? `expected one of ${PRIOR_KINDS.join(", ")}, or <provider>:<kind>`
        : `did you mean "${prefix}${near}"?`;
    context.addIssue({
      code: "custom",
      message: `${JSON.stringify(name)} is not a lane whose answers take a time of their own; ${hint}`,
    });
  }
});

const offPeakDay = z.string().superRefine((entry, context) => {
  const message = offPeakDayFault(entry);
  if (message !== undefined) context.addIssue({ code: "custom", message });
});

/** `lanes`. */
export const laneSchema: z.ZodType<unknown> = z
  .strictObject({
    ...lists,
    models: z.record(z.string().refine(isModelPattern), choicesSchema).optional(),
    pollSeconds: z
      .strictObject({ min: seconds.optional(), max: seconds.optional() })
      .refine(({ min, max }) => min === undefined || max === undefined || min <= max, {
        message: "min must not be above max",
      })
      .optional(),
    adoptSeconds: seconds.optional(),
    minItems: z.number().int().min(1).optional(),
    priors: priors.optional(),
    offPeakDays: z.array(offPeakDay).max(1_000).optional(),
  })
  .refine(keepsRealtime, needsRealtime);
