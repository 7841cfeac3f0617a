/**
 * The terms of a call: at once, or with a deadline.
 *
 *   x-perigee-sla: 15m       a duration in whole minutes, 1 minute to 30 days
 *   metadata.sla             the same, where a client cannot set headers
 *   service_tier: "flex"     the operator's default sla; refused without one
 *   none of them             at once
 *
 * The first that is present decides. `metadata.sla` and `service_tier: "flex"` are not passed on.
 */
import { refusedParam } from "../../errors.ts";
import { z } from "../../schema.ts";
import { parseDurationMs, SLA_MINUTES_MAX } from "../../work/sla.ts";
import type { FastifyRequest } from "../http/fastify.ts";

const SLA_HEADER = "x-perigee-sla";
const MINUTE_MS = 60_000;

/** Members of every call's body, beside the question. */
export const CALL_MEMBERS: {
  readonly model: z.ZodString;
  readonly metadata: z.ZodOptional<z.ZodNullable<z.ZodRecord<z.ZodString, z.ZodUnknown>>>;
  readonly service_tier: z.ZodOptional<z.ZodNullable<z.ZodString>>;
} = {
  model: z.string().min(1).max(300).describe("An alias, `<provider>:<name>`, or a name of OpenAI's."),
  metadata: z.record(z.string(), z.unknown()).nullish().describe("`sla` in it is the call's sla."),
  service_tier: z.string().nullish().describe("`flex` means the service's default sla."),
};

/** What a body may say of its terms. */
export interface TermsBody {
  readonly metadata?: Readonly<Record<string, unknown>> | null | undefined;
  readonly service_tier?: string | null | undefined;
}

/** The terms, and what is left of the members that stated them. */
export interface CallTerms {
  /** Undefined: at once. */
  readonly slaMinutes: number | undefined;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly serviceTier: string | undefined;
}

/** Throws `usage` (`details.param`). `defaultSla` is the operator's, in minutes. */
export function termsOf(
  { headers }: Pick<FastifyRequest, "headers">,
  { metadata, service_tier }: TermsBody,
  defaultSla: number | undefined,
): CallTerms {
  const { sla: stated, ...others } = metadata ?? {};
  const isFlex = service_tier === "flex";
  return {
    slaMinutes: minutesOf(headers[SLA_HEADER], stated) ?? (isFlex ? flexMinutes(defaultSla) : undefined),
    metadata: Object.keys(others).length === 0 ? undefined : others,
    serviceTier: isFlex ? undefined : (service_tier ?? undefined),
  };
}

/** Minutes of a duration such as `15m`; throws `usage`. */
export function slaMinutesOf(text: unknown, param: string): number {
  const ms = typeof text === "string" ? parseDurationMs(text) : undefined;
  const minutes = ms === undefined ? Number.NaN : ms / MINUTE_MS;
  if (Number.isInteger(minutes) && minutes >= 1 && minutes <= SLA_MINUTES_MAX) return minutes;
  const found = typeof text === "string" ? JSON.stringify(text.slice(0, 32)) : kindOf(text);
  throw refusedParam(param, `expected a duration in whole minutes from 1m to 30d, such as 15m; got ${found}`);
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return typeof value === "object" ? "an object or a list" : `a ${typeof value}`;
}

function minutesOf(header: unknown, stated: unknown): number | undefined {
  if (header !== undefined) return slaMinutesOf(header, SLA_HEADER);
  return stated === undefined ? undefined : slaMinutesOf(stated, "metadata.sla");
}

function flexMinutes(defaultSla: number | undefined): number {
  if (defaultSla !== undefined) return defaultSla;
  throw refusedParam(
    "service_tier",
    `"flex" means the service's default sla, which is not configured; send the header ${SLA_HEADER}: 15m instead`,
  );
}
