/**
 * An alert in the form for every receiver, and what all of its encoders share.
 *
 *   trigger -> (acknowledge) -> resolve        distinguished by `dedup_key`, where the receiver has a state at all
 *
 * Limits: title 1,000 characters, message 64 Ki, 100 details of 4 Ki each, 10 links.
 */
import { z } from "../../../schema.ts";
import type { Json } from "../../../work/json.ts";
import type { Schema } from "../../sdk/satellite.ts";
import { isHttpUrl } from "../exchange/receiver_fields.ts";

const TITLE_MAX = 1_000;
const MESSAGE_MAX = 65_536;
const DETAILS_MAX = 100;
const DETAIL_MAX = 4_096;
const LINKS_MAX = 10;
const KEY_MAX = 255;

/** From the least urgent; each encoder has its receiver's word for it. */
export type Severity = "info" | "warning" | "error" | "critical";

/** An alert as users send it. `time` is ISO 8601, default now; `dedup_key` default the execution's id. */
export interface AlertInput {
  readonly action: "trigger" | "acknowledge" | "resolve";
  readonly severity: Severity;
  readonly title: string;
  readonly message?: string | undefined;
  readonly source: string;
  readonly dedup_key?: string | undefined;
  readonly time?: string | undefined;
  readonly details: Readonly<Record<string, Json>>;
  readonly links: readonly { readonly url: string; readonly text?: string | undefined }[];
}

export const alertInput: Schema<AlertInput> = z
  .strictObject({
    action: z
      .enum(["trigger", "acknowledge", "resolve"])
      .default("trigger")
      .describe("What happened to the incident. Chats show all three as messages."),
    severity: z.enum(["info", "warning", "error", "critical"]).default("error").describe("How bad it is."),
    title: z.string().min(1).max(TITLE_MAX).describe("One line."),
    message: z.string().max(MESSAGE_MAX).optional().describe("More of it, as plain text."),
    source: z.string().min(1).max(255).default("perigee").describe("The source or subject of the alert."),
    dedup_key: z
      .string()
      .min(1)
      .max(KEY_MAX)
      .refine(
        (text) => !/^\.{1,2}$/.test(text),
        "must not be a dot or two, which are not valid names in an address",
      )
      .optional()
      .describe(
        "Alerts of one key are one incident. Default: the execution's id; needed to acknowledge and resolve.",
      ),
    time: z.iso.datetime({ offset: true }).optional().describe("When it happened. Default: now."),
    details: z
      .record(z.string().min(1).max(100), z.json())
      .refine(
        (all) => Object.keys(all).length <= DETAILS_MAX,
        `must be at most ${DETAILS_MAX} names with values`,
      )
      .default({})
      .describe("Names and values to show; other values than texts are shown as JSON."),
    links: z
      .array(
        z.strictObject({
          url: z.string().max(2_048).refine(isHttpUrl, "must be an http or https URL").describe("Where to."),
          text: z.string().min(1).max(100).optional().describe("What is shown; default: the URL."),
        }),
      )
      .max(LINKS_MAX)
      .default([])
      .describe("Links to show."),
  })
  .refine(({ action, dedup_key }) => action === "trigger" || dedup_key !== undefined, {
    path: ["dedup_key"],
    message: "must say which alert is acknowledged or resolved",
  });

/** Ready for encoders. */
export interface Alert {
  readonly action: AlertInput["action"];
  readonly severity: Severity;
  readonly title: string;
  readonly message: string;
  readonly source: string;
  readonly dedupKey: string;
  /** ISO 8601, UTC. */
  readonly time: string;
  readonly details: readonly (readonly [name: string, value: string])[];
  readonly links: readonly { readonly url: string; readonly text: string }[];
}

/** With defaults in, and cut to what all receivers take. `wallMs` is the time of one without. */
export function alertOf(input: AlertInput, executionId: string, wallMs: number): Alert {
  return {
    action: input.action,
    severity: input.severity,
    title: input.title.replace(/\s+/g, " "),
    message: input.message ?? "",
    source: input.source,
    dedupKey: input.dedup_key ?? executionId,
    time: new Date(input.time ?? wallMs).toISOString(),
    details: Object.entries(input.details).map(([name, value]) => [
      name,
      (typeof value === "string" ? value : JSON.stringify(value)).slice(0, DETAIL_MAX),
    ]),
    links: input.links.map(({ url, text }) => ({ url: new URL(url).href, text: text ?? url })),
  };
}

/** How chats begin the line of an alert. */
export function labelOf({ action, severity }: Alert): string {
  if (action === "trigger") return severity.toUpperCase();
  return action === "resolve" ? "RESOLVED" : "ACKNOWLEDGED";
}

const COLORS: Readonly<Record<Severity, number>> = {
  info: 0x3b82f6,
  warning: 0xf59e0b,
  error: 0xdc2626,
  critical: 0x7f1d1d,
};
const RESOLVED = 0x16a34a;

/** As 0xRRGGBB. */
export function colorOf({ action, severity }: Alert): number {
  return action === "resolve" ? RESOLVED : COLORS[severity];
}

/** JSON in a POST. */
export function jsonPost(
  url: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
} {
  return { url, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
}
