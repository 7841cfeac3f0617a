/**
 * `perigee audit LOG`: what a log of usage cost, and what the same work would have cost with slas. Nothing is sent.
 */
import { resolve } from "node:path";
import { systemClock } from "../../clock.ts";
import { type DiskFile, systemDisk } from "../../disk.ts";
import { readPricesFile } from "../../engine/config/config.ts";
import { PerigeeError } from "../../errors.ts";
import { headOf, sniff } from "../../jsonl/sniff.ts";
import type { CountedLines } from "../../spend/count_lines.ts";
import { type CountTerms, countLog, countStream } from "../../spend/log_parts.ts";
import { type AuditReport, auditReport } from "../../spend/report.ts";
import { StreamFile } from "../../spend/stream_file.ts";
import { waitMsOf } from "../../spend/what_if.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import { errorJson } from "../exit.ts";
import { auditLog } from "./audit_log.ts";
import { auditText } from "./audit_text.ts";

/** As of a run whose lines ended in errors. */
const EXIT_LINES = 3;
const SLAS_DEFAULT: readonly number[] = [15, 60, 1_440];
const SLAS_MAX = 16;

/** Options as commander parses them. */
interface AuditArguments {
  readonly sla?: readonly number[];
  readonly prices?: string;
  readonly data?: string;
  readonly json?: boolean;
}

/** Of a log, or without one of the audit log of a service. Returns the exit code; throws for what `exitCodeOf` knows. */
export async function audit(log: string | undefined, options: Record<string, unknown>): Promise<number> {
  const given = options as AuditArguments; // commander's own shape, declared in folder_commands.ts
  try {
    if (log === undefined) return await auditService(given);
    const report = await reportOf(log, given);
    process.stdout.write(given.json === true ? `${JSON.stringify(report)}\n` : auditText(report));
    return report.lines_not_understood === 0 ? 0 : EXIT_LINES;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

function auditService({ sla, prices, data, json }: AuditArguments): Promise<number> {
  if (sla !== undefined || prices !== undefined)
    throw new PerigeeError("usage", "--sla and --prices need a log: perigee audit LOG.jsonl");
  return auditLog(data ?? "./perigee-data", json === true);
}

async function reportOf(log: string, { sla, prices, data }: AuditArguments): Promise<AuditReport> {
  if (data !== undefined)
    throw new PerigeeError(
      "usage",
      "--data is of the audit log of a service: leave it out to audit a log of usage",
    );
  const slas = slasOf(sla);
  const terms: CountTerms = {
    prices: prices === undefined ? {} : await readPricesFile(prices),
    waitsMs: slas.map(waitMsOf),
    nowMs: systemClock.wallMs(),
  };
  return auditReport(await countedOf(log, terms), slas);
}

/** In minutes, ascending, each once. */
function slasOf(given: readonly number[] = SLAS_DEFAULT): readonly number[] {
  const slas = [...new Set(given.flatMap((sla) => parseSlaMinutes(sla, "--sla") ?? []))];
  if (slas.length > SLAS_MAX) throw new PerigeeError("usage", `--sla takes at most ${SLAS_MAX} windows`);
  return slas.sort((a, b) => a - b);
}

async function countedOf(log: string, terms: CountTerms): Promise<CountedLines> {
  if (log === "-") return countChecked(new StreamFile(process.stdin), "standard input", terms);
  const found = await systemDisk.stat(log);
  if (found === undefined) throw new PerigeeError("input_unreadable", `${log}: no such file`);
  const file = await systemDisk.open(log, "read").catch((cause: unknown) => {
    throw new PerigeeError("input_unreadable", `${log} cannot be opened`, { cause });
  });
  try {
    if (!found.isSeekable) return await countChecked(new StreamFile(chunksOf(file)), log, terms);
    refuseForeign(await headOf(file), log);
    return await countLog(resolve(log), file, found.sizeBytes, terms);
  } finally {
    await file.close();
  }
}

async function countChecked(file: StreamFile, name: string, terms: CountTerms): Promise<CountedLines> {
  const head = Buffer.alloc(HEAD_BYTES);
  refuseForeign(head.subarray(0, await file.read(head, 0)), name);
  return countStream(file, terms);
}

const HEAD_BYTES = 4_096;
const CHUNK_BYTES = 1024 * 1024;

/** A pipe, by its path. */
async function* chunksOf(file: DiskFile): AsyncGenerator<Uint8Array> {
  for (;;) {
    const chunk = new Uint8Array(CHUNK_BYTES);
    const got = await file.read(chunk, 0); // a pipe has no position
    if (got === 0) return;
    yield chunk.subarray(0, got);
  }
}

/** Throws `unsupported_encoding`. */
function refuseForeign(head: Uint8Array, name: string): void {
  const found = sniff(head, name);
  if (found === undefined) return;
  const wayOn =
    found.kind === "compressed"
      ? `unpack it, for example: zcat ${name === "standard input" ? "LOG.jsonl.gz" : name} | perigee audit -`
      : "export the log as JSON lines";
  throw new PerigeeError(
    "unsupported_encoding",
    `${name} is ${found.words}, expected JSON lines in UTF-8; ${wayOn}`,
    { details: { kind: found.kind } },
  );
}
