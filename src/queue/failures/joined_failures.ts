/**
 * When items that share a request are sent in halves, because one of them may be why the others failed.
 *
 *   refused for an input ------------------------------------------> halves
 *   refused for a member that all items have in common ------------> each fails: it would be refused by itself, too
 *   500, a function that threw, vectors for some of the inputs -----> together once more, then halves
 *   any other failure, and an answer without any vector ------------> together: the server's, and no item's
 */

/** What is known of a failed request for several items. */
export interface JoinedFailure {
  readonly code?: string | undefined;
  readonly httpStatus?: number | undefined;
}

/** Requests in a row that fail as if one of their items were the reason. */
const BROKEN_MAX = 2;

/** Of one request's items; made at its first failure. */
export class JoinedFailures {
  /** Whether the last request was refused for what its items have in common. */
  isRefusedForAll = false;
  /** Whether the last answer had vectors for some of its items. */
  #isPartial = false;
  #broken = 0;

  /** `member`: the member of the body that the last answer shows to be wrong; `common`: JSON of those that all items share. */
  answered(member: string | undefined, common: string): void {
    this.#isPartial = member === "input";
    this.isRefusedForAll = member !== undefined && common.includes(`"${member}":`);
  }

  /** Whether they are sent in halves now. To be asked once after each failed request. */
  breaks({ code, httpStatus }: JoinedFailure): boolean {
    const isThrown = code === "provider_error" && httpStatus === undefined;
    const isPartial = code === "invalid_response" && this.#isPartial;
    this.#broken = httpStatus === 500 || isThrown || isPartial ? this.#broken + 1 : 0;
    return this.#broken >= BROKEN_MAX;
  }
}
