/**
 * What `perigee audit LOG` prints: the sums, a table of models, a table of slas, and what is not known.
 */
import { usdText } from "../../price/money.ts";
import { howToPrice } from "../../price/price_sheet.ts";
import type { AuditModel, AuditReport, AuditSla } from "../../spend/report.ts";
import { count, percent, short } from "../numbers.ts";
import { table } from "../table.ts";

const MODELS_SHOWN = 20;
const NAMED_SHOWN = 5;
/** Names are the log's: a terminal would obey what they hold. */
const CONTROL = /[^\P{Cc}\n]/gu;

/** `1 request is`, `2 requests are`. */
function counted(number: number, one: string, many: string): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Ends in a line end. */
export function auditText(report: AuditReport): string {
  const parts = [headText(report)];
  if (report.models.length > 0) parts.push(modelsTable(report), slasTable(report));
  parts.push(notesText(report));
  return parts.filter(Boolean).join("\n").replace(CONTROL, "\ufffd");
}

function headText(report: AuditReport): string {
  const { from, to, tokens } = report;
  const period = from === null ? "no times in the log" : `${minuteOf(from)} to ${minuteOf(to ?? from)} UTC`;
  const rows: [string, string][] = [
    ["period", period],
    ["requests", count(report.requests)],
    [
      "tokens",
      `${count(tokens.fresh_input)} input, ${count(tokens.cached_input)} cached, ${count(tokens.cache_write)} written to caches, ${count(tokens.output)} output`,
    ],
    [
      "at list price",
      `${usdText(report.list_usd)} in realtime, ${usdText(report.tier_usd)} in the tiers that the log names`,
    ],
  ];
  if (report.stated_usd !== null) rows.push(["stated in the log", usdText(report.stated_usd)]);
  for (const { provider, usd } of report.costs)
    rows.push([`billed by ${provider}`, `${usdText(usd)} (export of costs)`]);
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `${label.padEnd(width)}  ${value}\n`).join("");
}

/** `2026-10-24 22:02`. */
function minuteOf(iso: string): string {
  return iso.slice(0, 16).replace("T", " ");
}

function modelsTable({ models, slas }: AuditReport): string {
  const head = [
    "model",
    "requests",
    "input",
    "cached",
    "output",
    "list",
    "in its tiers",
    "stated",
    ...slas.map(({ sla_minutes }) => slaName(sla_minutes)),
  ];
  const rows = models
    .slice(0, MODELS_SHOWN)
    .map((model) => [
      model.model,
      count(model.requests),
      short(model.tokens.fresh_input + model.tokens.cache_write),
      short(model.tokens.cached_input),
      short(model.tokens.output),
      amountText(model.list_usd),
      tiersText(model),
      amountText(model.stated_usd, "-"),
      ...(model.slas.length === 0 ? slas.map(() => "unknown") : model.slas.map(cellText)),
    ]);
  const more = models.length - rows.length;
  return `${table([head, ...rows])}${more > 0 ? `and ${count(more)} more models: --json has all\n` : ""}`;
}

function slaName(minutes: number): string {
  if (minutes % 1_440 === 0) return `sla ${minutes / 1_440}d`;
  return minutes % 60 === 0 ? `sla ${minutes / 60}h` : `sla ${minutes}m`;
}

function amountText(usd: number | null, without = "unknown"): string {
  return usd === null ? without : usdText(usd);
}

/** The amount, and the tiers if the log names any. */
function tiersText({ tier_usd, tiers }: AuditModel): string {
  const named = tiers.flatMap(({ tier }) => tier ?? []);
  return `${amountText(tier_usd)}${named.length === 0 ? "" : ` (${named.slice(0, 3).join(", ")})`}`;
}

/** The amount, and where most of it would be spent. */
function cellText({ expected_usd, tiers }: AuditSla): string {
  return `${usdText(expected_usd)} ${tiers[0]?.tier ?? ""}`.trimEnd();
}

function slasTable({ slas, paid_usd }: AuditReport): string {
  const rows = slas.map(({ sla_minutes, expected_usd, saved_usd, tiers }) => [
    slaName(sla_minutes),
    usdText(expected_usd),
    saved_usd === 0 ? "nothing" : `${usdText(saved_usd)} (${percent(saved_usd / paid_usd)})`,
    tiers.map(({ tier, expected_usd: usd }) => `${tier} ${usdText(usd)}`).join(", "),
  ]);
  return `expected with perigee, instead of ${usdText(paid_usd)} (at list price, or what the log states if that is less)\n${table([["", "expected", "less by", "of it"], ...rows])}`;
}

/** What is assumed and what is not known, one a line. */
function notesText(report: AuditReport): string {
  const notes = [...assumptions(report), ...gaps(report)];
  return notes.map((note) => `- ${note}\n`).join("");
}

function assumptions(report: AuditReport): string[] {
  if (report.models.length === 0) return [];
  const kept = "kept: already in a tier that costs no more, or no cheaper one meets the sla";
  return [
    "list prices of the day of each request: discounts, credits and taxes are not in them",
    "expected costs use how long small jobs of others took in August and September 2026, and count what would be late as paid twice",
    kept,
  ];
}

function gaps(report: AuditReport): string[] {
  const { unpriced_models: unpriced, without_usage: without } = report;
  const unnamed = report.models.flatMap(({ tiers }) => tiers.filter(({ tier }) => tier === null));
  const unknown = new Set(
    report.models.flatMap(({ tiers }) => tiers.flatMap((one) => (one.is_known ? [] : [one.tier]))),
  );
  const inexact = report.models.filter(({ price, price_is_exact }) => price !== null && !price_is_exact);
  const notes: (string | false)[] = [
    unpriced.length > 0 &&
      `no price is known for ${listed(unpriced)}: ${counted(report.unpriced_requests, "request is", "requests are")} in no amount; ${howToPrice(unpriced[0] ?? "")}`,
    inexact.length > 0 && `priced as a similar name: ${listed(inexact.map(({ model }) => model))}`,
    unnamed.length > 0 &&
      "where the log names no tier, realtime is assumed, or what the log states if that is less",
    unknown.size > 0 && `tiers of unknown price, kept at list price: ${listed([...unknown].map(String))}`,
    report.undated > 0 &&
      `${counted(report.undated, "entry has no time: it has", "entries have no time: they have")} the price of today`,
    report.sum_entries > 0 &&
      `${counted(report.sum_entries, "entry is a sum", "entries are sums")} of requests: higher prices of long requests are not in them`,
    report.sum_entries_without_requests > 0 &&
      `${counted(report.sum_entries_without_requests, "sum does", "sums do")} not say of how many requests`,
    without.failed > 0 && `${counted(without.failed, "failed request", "failed requests")} without usage`,
    without.gateway_cache > 0 &&
      `${counted(without.gateway_cache, "request was", "requests were")} answered from LiteLLM's own cache`,
    without.other_spans > 0 &&
      `${counted(without.other_spans, "span is not a request to a model", "spans are not requests to models")}`,
    without.summing_spans > 0 &&
      `${counted(without.summing_spans, "span of an agent repeats", "spans of agents repeat")} the usage of others`,
    report.costs.length > 0 &&
      "an export of costs has no tokens: it is shown, and not part of any comparison",
    report.lines_not_understood > 0 && wrongText(report),
    report.lines === 0 && "the log is empty",
  ];
  return notes.filter((note) => note !== false);
}

function listed(names: readonly string[]): string {
  const more = names.length - NAMED_SHOWN;
  return `${names.slice(0, NAMED_SHOWN).join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

function wrongText({ lines_not_understood: wrong, lines, not_understood: first }: AuditReport): string {
  const named = first.map(({ line, reason }) => `\n  line ${line}: ${reason}`).join("");
  return `${count(wrong)} of ${counted(lines, "line was", "lines were")} not understood, or not completely; the first:${named}`;
}
