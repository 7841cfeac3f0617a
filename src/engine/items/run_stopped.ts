/**
 * How items end that their run does not send any more.
 */
import { type FailureCode, PerigeeError } from "../../errors.ts";
import { parseModelId } from "../../work/request.ts";
import type { AttemptFailure } from "../journal/journal.ts";
import type { HeldEnd, Hold } from "./holds.ts";
import type { SentBy } from "./sent_as.ts";

/** Why a waiting retry was given up: its run no longer sends. */
export class RunStopped extends Error {
  constructor() {
    super("the run no longer sends");
    this.name = "RunStopped";
  }
}

/** The end of an item that was not sent, or not again. */
export interface UnsentEnd {
  /** Of its item, in JSON; absent or empty without any. */
  readonly metadata?: string;
  readonly status: "failed" | "expired" | "cancelled";
  readonly code: FailureCode;
  readonly message: string;
  /** Whether the same request may succeed at another time; of `failed`. */
  readonly retryable?: boolean;
  /** Of its item, as it was to be requested; absent where it is not known. */
  readonly model?: string;
  /** Who refused it, or what it was held by, and the HTTP status. */
  readonly provider?: string;
  readonly providerStatus?: number;
  /** How its last request was sent, and when its first one left, as in `SentItem`. */
  readonly sentAs?: SentBy | undefined;
  readonly startedWallMs?: number | undefined;
}

export function endMessage(status: "expired" | "cancelled"): string {
  return status === "expired"
    ? "the sla passed before the item was answered"
    : "it was cancelled before the item was answered";
}

/** `overloaded, HTTP 503`. */
export function failureText({ code, httpStatus }: AttemptFailure): string {
  return httpStatus === 0 ? code : `${code}, HTTP ${httpStatus}`;
}

/** How an item of a model ends in a run that ends early. */
export function endOf(
  owner: {
    readonly heldEnd: ((model: string) => HeldEnd) | undefined;
    /** Those of the end, where the sla has passed. */
    readonly holds: readonly Hold[];
  },
  status: "expired" | "cancelled" | "giving_up",
  model: string,
): UnsentEnd {
  const named = model === "" ? {} : { model };
  const hold = status === "expired" ? holdOf(owner.holds, model) : undefined;
  if (hold !== undefined) return { status: "expired", code: "expired", message: heldText(hold), ...named };
  if (status !== "giving_up") return { status, code: status, message: endMessage(status), ...named };
  const end = owner.heldEnd?.(model) ?? {
    code: "provider_error",
    message: "the run ended before it was sent",
  };
  return { status: "failed", ...end, retryable: true, ...named };
}

/** Of its own model, then of its provider, then of all. */
function holdOf(holds: readonly Hold[], id: string): Hold | undefined {
  const name = parseModelId(id)?.provider;
  return (
    holds.find(({ model }) => model !== undefined && model === id) ??
    holds.find(({ provider, model }) => provider !== undefined && provider === name && model === undefined) ??
    holds.find(({ provider, model }) => provider === undefined && model === undefined)
  );
}

/** `the sla passed while openai was held (outage: connection refused)`. */
function heldText({ provider = "the item", reason, message }: Hold): string {
  return `the sla passed while ${provider} was held (${reason}: ${message})`;
}

/** What a fault of perigee in the middle of a call means for its run. */
export function faultOf(error: unknown): PerigeeError {
  if (error instanceof PerigeeError) return error;
  return new PerigeeError("internal_error", "a fault of perigee ended the work; please report it", {
    cause: error,
  });
}
