/**
 * Values of options, read from their text. Each throws `usage`, with what the text must be.
 */
import { PerigeeError } from "../errors.ts";
import { laneFault, MIN_ON_TIME } from "../queue/lane_choice.ts";
import { meantModel } from "../work/model_owner.ts";
import { parseModelId } from "../work/request.ts";
import { parseDurationMs, SLA_MINUTES_MAX } from "../work/sla.ts";

/** Minutes, as a number or as a duration such as 90m, 24h, 7d. */
export function slaMinutes(text: string): number {
  const minutes = /^\d{1,9}$/.test(text) ? Number(text) : (parseDurationMs(text) ?? Number.NaN) / 60_000;
  if (Number.isInteger(minutes)) return minutes;
  throw new PerigeeError(
    "usage",
    `It must be whole minutes from 1 to ${SLA_MINUTES_MAX}, or a duration such as 90m, 24h or 7d.`,
  );
}

/** USD above 0. */
export function amount(text: string): number {
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text) && Number(text) > 0) return Number(text);
  throw new PerigeeError("usage", "It must be an amount in USD above 0, such as 4 or 0.50.");
}

/** A cap's name and its amount. */
export function namedCap(text: string): { readonly name: string; readonly usd: number } {
  const [, name = "", usd = ""] = /^([\w.:-]{1,64})=(.*)$/.exec(text) ?? [];
  if (name !== "") return { name, usd: amount(usd) };
  throw new PerigeeError("usage", "It must be a name and an amount in USD, such as evals-november=50.");
}

/** A whole number from 1. */
export function count(text: string): number {
  if (/^\d{1,9}$/.test(text) && Number(text) > 0) return Number(text);
  throw new PerigeeError("usage", "It must be a whole number from 1, such as 50.");
}

/** A number of items from 1. */
export function items(text: string): number {
  if (/^\d{1,9}$/.test(text) && Number(text) > 0) return Number(text);
  throw new PerigeeError("usage", "It must be a number of items from 1, such as 50.");
}

/** 0 to 65535. */
export function portNumber(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new PerigeeError("usage", "It must be a port from 0 to 65535.");
}

/** `<provider>:<name>`, or a name without a colon, which may be an alias of the configuration. */
export function modelId(text: string): string {
  const meant = meantModel(text);
  if (parseModelId(text) !== undefined || (meant === "" && /^[^:]+$/.test(text))) return text;
  throw new PerigeeError(
    "usage",
    `It must be <provider>:<name>${meant === "" ? ", such as openai:gpt-4o-mini." : meant}`,
  );
}

/** Several windows, comma separated or in repeated options. */
export function slaList(text: string, before: readonly number[] = []): readonly number[] {
  return [...before, ...text.split(",").map((part) => slaMinutes(part.trim()))];
}

/** Words, comma separated or in repeated options. */
export function list(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(",").map((part) => part.trim())];
}

/** Names of lanes, comma separated or in repeated options. */
export function laneNames(text: string, before: readonly string[] = []): readonly string[] {
  const names = list(text, before);
  const fault = names.map(laneFault).find((each) => each !== undefined);
  if (fault !== undefined) throw new PerigeeError("usage", fault);
  return names;
}

/** A share of answers, in (0, 1). */
export function onTimeShare(text: string): number {
  const share = Number(/^0?\.\d{1,6}$/.test(text) ? text : Number.NaN);
  const { least, most } = MIN_ON_TIME;
  if (share >= least && share <= most) return share;
  throw new PerigeeError("usage", `It must be a share from ${least} to ${most}, such as 0.99.`);
}

/** Milliseconds above 0. */
export function durationMs(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== undefined && ms > 0) return ms;
  throw new PerigeeError("usage", "It must be a duration above 0, such as 90m, 24h or 30d.");
}

/** A duration above 0, as it was written. */
export function ageText(text: string): string {
  durationMs(text);
  return text;
}

/** Milliseconds from 0. */
export function waitMs(text: string): number {
  const ms = text === "0" ? 0 : parseDurationMs(text);
  if (ms !== undefined) return ms;
  throw new PerigeeError("usage", "It must be 0, or a duration such as 90s, 30m or 2h.");
}

/** One to three durations in seconds, above 0 and not falling, such as 0.8 or 0.8,2,6. */
export function secondsList(text: string): readonly number[] {
  const seconds = text
    .split(",")
    .map((part) => (/^\d{1,6}(\.\d{1,6})?$/.test(part.trim()) ? Number(part) : Number.NaN));
  const isRising = seconds.every((each, index) => each > 0 && each >= (seconds[index - 1] ?? 0));
  if ((seconds.length === 1 || seconds.length === 3) && isRising) return seconds;
  throw new PerigeeError(
    "usage",
    "It must be seconds above 0: a median such as 0.8, or p50,p90,p99 such as 0.8,2,6.",
  );
}

/** A whole number from 0. */
export function seedNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new PerigeeError("usage", "It must be a whole number from 0, such as 7.");
}
