/**
 * Which items a hold concerns, and what their objects show of it.
 */
import { modelFault } from "../../jsonl/layout.ts";
import { parseModelId } from "../../work/request.ts";
import type { ObjectHold } from "../../work/task.ts";
import type { Hold } from "./holds.ts";

/** Whether a hold is one of items of a model. */
export function concerns(
  providers: ReadonlySet<string>,
  { reason, provider, model: heldModel }: Hold,
  model: string,
): boolean {
  if (heldModel !== undefined) return heldModel === model;
  const own = parseModelId(model)?.provider;
  if (provider !== undefined && (own !== undefined || reason !== "provider_missing")) return own === provider;
  return reason !== "provider_missing" || modelFault(model, providers) !== undefined;
}

/** As a caller of the service may see it: addresses and words of providers are the operator's. */
export function objectHold(hold: Hold): ObjectHold {
  const { reason, since, next_try, provider, model, code, provider_status } = hold;
  return {
    reason,
    since,
    next_try,
    ...(provider === undefined ? {} : { provider }),
    ...(model === undefined ? {} : { model }),
    ...(code === undefined ? {} : { code }),
    ...(provider_status === undefined ? {} : { provider_status }),
  };
}
