/**
 * What can be said of an address that a user gave before its name is resolved. Nothing waits here.
 *
 * Parsed once, by the WHATWG rules, and only the parsed form is used: decimal, octal, hexadecimal, short and full-width
 * spellings of an IPv4 address are dotted decimals by then. Refused: other schemes than http and https; a user or a
 * password; other ports than 80, 443, 8443 and configured ones; names of one label and special-use names (RFC 6761 and
 * what is common beside it); addresses that are not global.
 *
 * What the operator allows: an allowed network may be reached at any port, and by any name whose addresses are all in it.
 * So with an allow-list a local name or a strange port is only decided on when the name is resolved (`isAllowedOnly`).
 *
 * Limits: 2,048 characters.
 */
import { isIP } from "node:net";
import { type AllowList, isGlobalAddress } from "./address.ts";

export interface Destination {
  readonly ok: true;
  /** `http://host:port`, as undici takes it. */
  readonly origin: string;
  /** With the query. */
  readonly path: string;
  /** A name without a dot at its end, or an address without brackets. */
  readonly host: string;
  readonly isAddress: boolean;
  /** Addresses on the public internet will not do: only the operator's networks may be reached this way. */
  readonly isAllowedOnly: boolean;
}

/** Refused, and why, in words that reveal nothing of the network. */
export interface Blocked {
  readonly ok: false;
  readonly message: string;
}

export interface DestinationRules {
  readonly allow: AllowList;
  /** Ports besides 80, 443 and 8443. */
  readonly ports: readonly number[];
}

const URL_LENGTH_MAX = 2_048;
const PORTS: readonly number[] = [80, 443, 8443];

/** Names that lead to this machine, this network, or nowhere, by their last labels. */
const LOCAL_NAMES: readonly string[] = [
  "alt",
  "arpa",
  "corp",
  "example",
  "home",
  "internal",
  "intranet",
  "invalid",
  "lan",
  "local",
  "localdomain",
  "localhost",
  "onion",
  "private",
  "test",
];

/** Says what a URL leads to, or why it is refused. */
export function destinationOf(text: string, { allow, ports }: DestinationRules): Destination | Blocked {
  const url = parseUrl(text);
  if (url === undefined)
    return blocked("the url is not an absolute http or https URL of at most 2,048 characters");
  if (url.username !== "" || url.password !== "") return blocked("the url has a user or password");
  const isAddress = url.hostname.startsWith("[") || isIP(url.hostname) === 4;
  const host = isAddress ? url.hostname.replace(/^\[|\]$/g, "") : url.hostname.replace(/\.$/, "");
  const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
  const isUsualPort = PORTS.includes(port) || ports.includes(port);
  const isPublic = isAddress ? isGlobalAddress(host) : isPublicName(host);
  if (isAddress ? !allow.has(host) : allow.isEmpty) {
    if (!isUsualPort) return blocked(`port ${port} is not one that may be called`);
    if (!isPublic) return blocked("the url does not lead to a public address");
  }
  const origin = `${url.protocol}//${isAddress ? url.hostname : host}${url.port === "" ? "" : `:${url.port}`}`;
  const path = `${url.pathname}${url.search}`;
  return { ok: true, origin, path, host, isAddress, isAllowedOnly: !isUsualPort || !isPublic };
}

function parseUrl(text: string): URL | undefined {
  // The parser would drop or mend these; their author wants two readers to see different addresses.
  if (text.length > URL_LENGTH_MAX || /[\s\\\p{Cc}]/u.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === "http:" || url.protocol === "https:" ? url : undefined;
}

function isPublicName(name: string): boolean {
  const labels = name.split(".");
  const isWhole = labels.length > 1 && labels.every((label) => label !== "");
  return isWhole && !LOCAL_NAMES.includes(labels.at(-1) ?? "");
}

function blocked(message: string): Blocked {
  return { ok: false, message };
}
