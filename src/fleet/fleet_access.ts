/**
 * Finds the project of a request's key, in either form of the header. An unknown key is looked up in the database, so that a key that another
 * process has just made is accepted at once.
 */
import type { KeyVerifier } from "../service/http/key_verifier.ts";

/** The keys of the fleet. */
export interface FleetKeys {
  readonly verifier: KeyVerifier;
  /** Resolves when keys that were made before the call are known. */
  look(): Promise<void>;
  /** Whether the text has the form of a key. */
  isForm(text: string): boolean;
}

export class FleetAccess {
  readonly #keys: FleetKeys;

  constructor(keys: FleetKeys) {
    this.#keys = keys;
  }

  /** Undefined for a header without a valid key. A promise only while an unknown key is looked up. */
  projectOf(authorization: string | undefined): string | undefined | Promise<string | undefined> {
    if (authorization === undefined) return undefined;
    const known = this.#project(authorization);
    if (known !== undefined || !this.#keys.isForm(authorization.replace(/^Bearer /i, ""))) return known;
    return this.#keys.look().then(() => this.#project(authorization));
  }

  #project(authorization: string): string | undefined {
    const { verifier } = this.#keys;
    return (verifier.verify(authorization, "v0") ?? verifier.verify(authorization, "v1"))?.project;
  }
}
