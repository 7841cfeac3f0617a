/**
 * How items end that their run does not send any more.
 */

/** Why a waiting retry was given up: its run no longer sends. */
export class RunStopped extends Error {
  constructor() {
    super("the run no longer sends");
    this.name = "RunStopped";
  }
}

export function endMessage(status: "expired" | "cancelled"): string {
  return status === "expired"
    ? "the sla passed before the item was answered"
    : "it was cancelled before the item was answered";
}
