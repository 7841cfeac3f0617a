/**
 * Links that carry their own permission, for readers without a key (a browser, a spreadsheet).
 *
 *   token = base64url(JSON of what may be read, until when) "." base64url(HMAC-SHA256 of the former)
 *
 * A link reads the output of one task, only for GET and HEAD, for at most an hour. Its key is made once and kept in
 * the store, so that links outlive a restart.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { OutputView } from "../../tasks/shapes/task_view.ts";

/** The longest that a link holds, in seconds. */
export const LINK_SECONDS_MAX = 3_600;

/** What a link may read. */
export interface LinkTarget {
  readonly project: string;
  readonly taskId: string;
  readonly view: OutputView;
}

const SECRETS = "secret";
const SECRET_ID = "output_link";
const SECRET_BYTES = 32;

/**
 * One for a store. What it signs with is made at its first use and kept in the store, so links hold over restarts.
 */
export class SignedLinks {
  readonly #store: Store;
  readonly #clock: Pick<Clock, "wallMs">;
  #secret: Promise<Buffer> | undefined;

  constructor(store: Store, clock: Pick<Clock, "wallMs">) {
    this.#store = store;
    this.#clock = clock;
  }

  /** `seconds` is 1 to `LINK_SECONDS_MAX`. */
  async sign(
    target: LinkTarget,
    seconds: number,
  ): Promise<{ readonly token: string; readonly untilWallMs: number }> {
    const untilWallMs = this.#clock.wallMs() + seconds * 1_000;
    const { project, taskId, view } = target;
    const claim = Buffer.from(JSON.stringify([project, taskId, view, untilWallMs])).toString("base64url");
    return { token: `${claim}.${(await this.#mac(claim)).toString("base64url")}`, untilWallMs };
  }

  /** Throws `not_found` for an invalid token, and for one that has expired. */
  async open(token: string): Promise<LinkTarget> {
    const [claim = "", mac = ""] = token.split(".", 2);
    const expected = await this.#mac(claim);
    const given = Buffer.from(mac, "base64url");
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw noLink();
    // Signed by us.
    const [project, taskId, view, untilWallMs] = JSON.parse(Buffer.from(claim, "base64url").toString()) as [
      string,
      string,
      OutputView,
      number,
    ];
    if (this.#clock.wallMs() >= untilWallMs) throw noLink();
    return { project, taskId, view };
  }

  async #mac(claim: string): Promise<Buffer> {
    this.#secret ??= this.#loadSecret();
    this.#secret.catch(() => {
      this.#secret = undefined; // asked for again the next time
    });
    return createHmac("sha256", await this.#secret)
      .update(claim)
      .digest();
  }

  async #loadSecret(): Promise<Buffer> {
    const found = await this.#store.record(EVERY_PROJECT, SECRETS, SECRET_ID);
    if (found?.payload !== undefined) return Buffer.from(found.payload);
    const secret = randomBytes(SECRET_BYTES);
    const place = { collection: SECRETS, id: SECRET_ID, project: "", parent: "" };
    const record = { ...place, createdWallMs: this.#clock.wallMs(), body: "{}", payload: secret };
    await this.#store.change([{ kind: "insert", record }]);
    return secret;
  }
}

function noLink(): PerigeeError {
  return new PerigeeError("not_found", "the link is not valid, or it has expired");
}
