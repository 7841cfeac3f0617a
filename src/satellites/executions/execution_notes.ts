/**
 * The notes of one execution: read when an attempt begins, written whole with each `set`.
 *
 * Values of secrets are taken out, so that they are on the disk only encrypted. Limit: 64 KiB of JSON.
 */
import { PerigeeError } from "../../errors.ts";
import type { JobAttempt } from "../../jobs/job.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import { copyJson } from "../sdk/json_copy.ts";
import type { Notes } from "../sdk/satellite.ts";
import type { Redactor } from "../secrets/redaction.ts";

const NOTES_BYTES_MAX = 64 << 10;

export class ExecutionNotes implements Notes {
  readonly #attempt: Pick<JobAttempt, "assertCurrent" | "keepNotes">;
  readonly #redaction: Redactor;
  readonly #values: Map<string, Json>;

  /** `before`: what earlier attempts have stored. */
  constructor(
    attempt: Pick<JobAttempt, "assertCurrent" | "keepNotes">,
    redaction: Redactor,
    before: Uint8Array | undefined,
  ) {
    this.#attempt = attempt;
    this.#redaction = redaction;
    const noted = before === undefined ? {} : (JSON.parse(new TextDecoder().decode(before)) as JsonObject); // written below
    this.#values = new Map(Object.entries(noted));
  }

  get(name: string): Json | undefined {
    return this.#values.get(name);
  }

  async set(name: string, value: Json): Promise<void> {
    this.#attempt.assertCurrent();
    const copied = copyJson(value);
    if (!copied.ok)
      throw new PerigeeError("usage", `the note ${JSON.stringify(name)} is not JSON: ${copied.reason}`);
    const values = new Map(this.#values).set(name, this.#redaction.redactJson(copied.value));
    const payload = new TextEncoder().encode(JSON.stringify(Object.fromEntries(values)));
    if (payload.byteLength > NOTES_BYTES_MAX)
      throw new PerigeeError("too_large", `the notes of an execution have at most ${NOTES_BYTES_MAX} bytes`);
    this.#values.set(name, this.#redaction.redactJson(copied.value));
    await this.#attempt.keepNotes(payload);
  }
}
