/**
 * Addresses that requests of users may go to: global unicast ones, and those that the operator allows by CIDR.
 *
 * The only import of ipaddr.js. To leave: parsing and matching of prefixes; the tables below are our own.
 *
 * IPv4 is global unless it is in the IANA special-purpose registry (or a cloud's own address). IPv6 is global within
 * only 2000::/3, without the special ranges there: never a mapped, compatible, NAT64 or 6to4 form of an IPv4 address.
 * Sources: iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, state 2026-11-21.
 */
import ipaddr from "ipaddr.js";
import { PerigeeError } from "../errors.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = readonly [Address, number];

const NOT_GLOBAL_V4 = ranges([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32", // Azure's host agent, on every machine there
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
]);
const GLOBAL_V6 = ranges(["2000::/3"]);
const NOT_GLOBAL_V6 = ranges(["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]);

/** Networks that the operator lets requests of users into. */
export class AllowList {
  readonly #ranges: readonly Range[];

  /** CIDRs or single addresses; throws `invalid_config` for what is neither. */
  constructor(networks: readonly string[]) {
    this.#ranges = networks.map(rangeOf);
  }

  get isEmpty(): boolean {
    return this.#ranges.length === 0;
  }

  has(address: string): boolean {
    const parsed = parse(address);
    return parsed !== undefined && isWithin(parsed, this.#ranges);
  }
}

/** Reads the list of `PERIGEE_EGRESS_ALLOW`: CIDRs, separated by commas or blanks. Throws `invalid_config`. */
export function parseAllowList(text: string | undefined): AllowList {
  return new AllowList((text ?? "").split(/[\s,]+/).filter((network) => network !== ""));
}

/** A host of URLs or of listeners that means only this machine; IPv6 without brackets. */
export function isLoopbackHost(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Whether an address is one on the public internet; false for anything that is not a plain address. */
export function isGlobalAddress(address: string): boolean {
  const parsed = parse(address);
  if (parsed === undefined) return false;
  if (parsed.kind() === "ipv4") return !isWithin(parsed, NOT_GLOBAL_V4);
  return isWithin(parsed, GLOBAL_V6) && !isWithin(parsed, NOT_GLOBAL_V6);
}

/** Whether two spellings mean the same address. */
export function isSameAddress(left: string, right: string): boolean {
  const [one, other] = [parse(left), parse(right)];
  return one !== undefined && other !== undefined && one.toNormalizedString() === other.toNormalizedString();
}

/** Undefined for an address in another than the usual form: decimal, octal, short and zoned ones are not parsed, but refused. */
function parse(address: string): Address | undefined {
  if (address.includes("%")) return undefined;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return ipaddr.IPv4.parse(address);
  return ipaddr.IPv6.isValid(address) ? ipaddr.IPv6.parse(address) : undefined;
}

function isWithin(address: Address, list: readonly Range[]): boolean {
  return list.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

function ranges(networks: readonly string[]): readonly Range[] {
  return networks.map(rangeOf);
}

function rangeOf(text: string): Range {
  const [network = "", bits, ...rest] = text.split("/");
  const address = parse(network);
  const bitsMax = address?.kind() === "ipv4" ? 32 : 128;
  const isLength = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax);
  if (address === undefined || !isLength || rest.length > 0)
    throw new PerigeeError(
      "invalid_config",
      `an allowed network must be a CIDR such as 10.0.0.0/8 or fd00::/8, got ${JSON.stringify(text)}`,
    );
  return [address, bits === undefined ? bitsMax : Number(bits)];
}
