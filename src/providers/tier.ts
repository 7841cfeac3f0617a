/**
 * The member of a request that asks for a cheaper tier: `service_tier` at OpenAI and its like, `serviceTier` at Gemini (the official
 * SDKs of November 2026 send these).
 */
import type { Protocol } from "./provider.ts";

const MEMBERS: Readonly<
  Partial<Record<Protocol, { readonly name: string; readonly known: readonly Buffer[] }>>
> = {
  openai: { name: "service_tier", known: [quoted("service_tier")] },
  gemini: { name: "serviceTier", known: [quoted("serviceTier"), quoted("service_tier")] },
};

/** Whether requests of a protocol can ask for a tier. */
export function hasTiers(protocol: Protocol): boolean {
  return MEMBERS[protocol] !== undefined;
}

/** Whether a request asks for a tier itself; true also where something else in it has that name. `body` is a JSON object. */
export function namesTier(protocol: Protocol, body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return MEMBERS[protocol]?.known.some((name) => bytes.includes(name)) ?? false;
}

/** The request with the tier asked for, in a copy. `body` is a JSON object with members, none of which names a tier. */
export function withTier(protocol: Protocol, body: Uint8Array, tier: string): Uint8Array {
  const member = MEMBERS[protocol];
  if (member === undefined) return body;
  return Buffer.concat([Buffer.from(`{"${member.name}":"${tier}",`), body.subarray(1)]);
}

/** Not found in a text: there, its quotes are escaped. */
function quoted(name: string): Buffer {
  return Buffer.from(`"${name}"`);
}
