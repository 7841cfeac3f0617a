/**
 * Secrets of projects: written, used by name as `secret://name`, and never read back.
 */

/** What is shown of a secret: never its value. Times are Unix time in milliseconds. */
export interface SecretView {
  readonly name: string;
  readonly createdWallMs: number;
  readonly updatedWallMs: number;
}

/** Values are on the disk only under AES-256-GCM, with project and name as additional data. */
export interface Secrets {
  /** Makes or replaces it; durable when it resolves. Throws `invalid_request` for an invalid name, `too_large` above 64 KiB. */
  set(project: string, name: string, value: string): Promise<void>;
  /** Only names and times. */
  list(project: string): Promise<readonly SecretView[]>;
  /** Throws `not_found`. */
  remove(project: string, name: string): Promise<void>;
  /** Only for the runner, right before an attempt; undefined without one. */
  reveal(project: string, name: string): Promise<string | undefined>;
}
