/**
 * Signatures of requests between an engine and the host of a satellite, by Standard Webhooks (standardwebhooks.com,
 * version 1.0): both know a secret, and both ends may be anybody's.
 *
 *   webhook-id          different for every request
 *   webhook-timestamp   seconds since 1970
 *   webhook-signature   v1,<base64 of HMAC-SHA256 over "id.timestamp.body"> (blanks between several)
 *
 * Limits: a request is taken within 5 minutes of its time, and once: 100,000 ids are remembered, and when there are more
 * within that time nothing is taken.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const TOLERANCE_SECONDS = 300;
const SECRET_BYTES = 32;
const SEEN_IDS_MAX = 100_000;
const SIGNATURES_MAX = 8;
const SECRET = /^whsec_([A-Za-z0-9+/]{24,88}={0,2})$/;
const ID = /^[\x21-\x2d\x2f-\x7e]{1,128}$/;

/** What a request carries besides its body. */
export interface SignedHeaders {
  readonly "webhook-id": string;
  readonly "webhook-timestamp": string;
  readonly "webhook-signature": string;
}

/** `whsec_` and base64 of 256 bits. */
export function newOrbitSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** Whether it is `whsec_` and base64 of 18 bytes or more. */
export function isOrbitSecret(text: string): boolean {
  return SECRET.test(text);
}

/** Headers for one request; `secret` has passed `isOrbitSecret`. */
export function signOrbit(
  { id, wallMs, body }: { readonly id: string; readonly wallMs: number; readonly body: Uint8Array },
  secret: string,
): SignedHeaders & Record<string, string> {
  const time = String(Math.floor(wallMs / 1_000));
  return {
    "webhook-id": id,
    "webhook-timestamp": time,
    "webhook-signature": `v1,${mac(secret, id, time, body).toString("base64")}`,
  };
}

/** Why a request is not taken. `seen`: it arrived before. `full`: the list is full, so this is not known. */
export type SignatureFault = "unsigned" | "seen" | "full";

/** Checks requests and remembers those that arrived. */
export class OrbitVerifier {
  /** Ids with the wall time in seconds until which they are remembered, the oldest first. */
  readonly #seen = new Map<string, number>();

  /** The secrets, of those given, that signed it; a fault if none of them did. */
  verify(
    headers: Readonly<Record<string, string | readonly string[] | undefined>>,
    body: Uint8Array,
    { secrets, wallMs }: { readonly secrets: readonly string[]; readonly wallMs: number },
  ): readonly string[] | SignatureFault {
    const id = headers["webhook-id"];
    const time = headers["webhook-timestamp"];
    const given = headers["webhook-signature"];
    if (typeof id !== "string" || typeof time !== "string" || typeof given !== "string") return "unsigned";
    const nowSeconds = Math.floor(wallMs / 1_000);
    if (!ID.test(id) || !/^\d{1,12}$/.test(time)) return "unsigned";
    if (Math.abs(nowSeconds - Number(time)) > TOLERANCE_SECONDS) return "unsigned";
    const signatures = given
      .split(" ", SIGNATURES_MAX)
      .filter((one) => one.startsWith("v1,"))
      .map((one) => Buffer.from(one.slice(3), "base64"));
    const signing = secrets.filter((secret) => {
      const wanted = mac(secret, id, time, body);
      return signatures.some((one) => one.length === wanted.length && timingSafeEqual(one, wanted));
    });
    return signing.length === 0 ? "unsigned" : (this.#faultOf(id, nowSeconds, Number(time)) ?? signing);
  }

  #faultOf(id: string, nowSeconds: number, time: number): SignatureFault | undefined {
    for (const [old, until] of this.#seen) {
      if (until >= nowSeconds) break;
      this.#seen.delete(old);
    }
    if (this.#seen.has(id)) return "seen";
    if (this.#seen.size >= SEEN_IDS_MAX) return "full";
    this.#seen.set(id, Math.max(nowSeconds, time) + TOLERANCE_SECONDS);
    return undefined;
  }
}

function mac(secret: string, id: string, time: string, body: Uint8Array): Buffer {
  const key = Buffer.from(SECRET.exec(secret)?.[1] ?? "", "base64");
  return createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
}
