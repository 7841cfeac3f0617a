/**
 * Log entries as syslog messages, RFC 5424, framed by octet counting, RFC 6587 section 3.4.1 (RFC 5425 over TLS).
 *
 *   <length> SP <PRI>1 SP TIMESTAMP SP HOSTNAME SP APP-NAME SP PROCID SP MSGID SP STRUCTURED-DATA [SP MSG]
 *
 * Attributes are structured data under the user's own enterprise number, and JSON after the message without one: an id without
 * a number would be IANA's.
 *
 * Limits: names of structured data 32 characters; messages are cut by bytes, since receivers take 8 KiB (rsyslog's default).
 */
import { asText, type Level, type LogEntry } from "./entry.ts";

const NAME_MAX = 32;
const HEADER_MAX = { hostname: 255, appName: 48 };

/** RFC 5424, section 6.2.1. */
const SEVERITIES: Readonly<Record<Level, number>> = {
  trace: 7,
  debug: 7,
  info: 6,
  warning: 4,
  error: 3,
  critical: 2,
};

/** What every message of a config has in common. */
export interface SyslogHeader {
  /** 0 to 23. */
  readonly facility: number;
  readonly hostname: string;
  readonly app_name: string;
  readonly enterprise_number?: number | undefined;
}

/** One frame. */
export function syslogFrame(entry: LogEntry, header: SyslogHeader): Buffer {
  const message = Buffer.from(syslogMessage(entry, header));
  return Buffer.concat([Buffer.from(`${message.length} `), message]);
}

/**
 * One frame, without its length before it. Attributes are structured data where an enterprise number is set, else JSON after
 * the message.
 */
export function syslogMessage(
  { wallMs, level, message, attributes }: LogEntry,
  header: SyslogHeader,
): string {
  const { facility, hostname, app_name, enterprise_number } = header;
  const names = Object.entries(attributes);
  const hasData = names.length > 0 && enterprise_number !== undefined;
  const data = hasData ? `[perigee@${enterprise_number}${names.map(parameter).join("")}]` : "-";
  const text = names.length === 0 || hasData ? message : `${message} ${JSON.stringify(attributes)}`;
  const head = [
    `<${facility * 8 + SEVERITIES[level]}>1`,
    new Date(wallMs).toISOString(),
    printable(hostname, HEADER_MAX.hostname),
    printable(app_name, HEADER_MAX.appName),
    "-",
    "-",
    data,
  ].join(" ");
  return text === "" ? head : `${head} ${marked(text)}`;
}

/** UTF-8 beyond ASCII begins with a byte order mark (section 6.4); a NUL would end the text for receivers in C. */
function marked(text: string): string {
  const safe = text.replaceAll("\0", "\uFFFD");
  return Buffer.byteLength(safe) === safe.length ? safe : `\uFEFF${safe}`;
}

function parameter([name, value]: readonly [string, LogEntry["attributes"][string]]): string {
  const safeName = printable(name, NAME_MAX).replace(/[="\]]/g, "_");
  const safeValue = asText(value)
    .replaceAll("\0", "\uFFFD")
    .replace(/["\\\]]/g, "\\$&");
  return ` ${safeName}="${safeValue}"`;
}

/** PRINTUSASCII, at least one. */
function printable(text: string, lengthMax: number): string {
  return text.replace(/[^\x21-\x7e]/g, "_").slice(0, lengthMax) || "-";
}
