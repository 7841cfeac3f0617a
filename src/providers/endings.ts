/**
 * What a well-formed answer comes to by how it ended, the same for all protocols; which of their reasons means what is
 * each codec's. `name` is the provider's.
 */
import type { Usage } from "../work/outcome.ts";
import { success } from "./exchange.ts";
import type { Decoded } from "./provider.ts";
import { itemFailure } from "./refusals.ts";

/** The token limit was reached: what text there is counts. */
export function cutOff(
  name: string,
  text: string,
  usage: Usage | undefined,
  tier: string | undefined,
): Decoded {
  if (text !== "") return success(text, "length", usage, tier);
  return itemFailure("permanent", "empty_output", `${name}: the token limit left no room for text`, usage);
}

/** A filter of the provider stopped the answer. */
export function filtered(name: string, usage: Usage | undefined): Decoded {
  return itemFailure("permanent", "filtered", `${name} filtered the answer`, usage);
}

/** The model said that it does not answer this. */
export function declined(name: string, usage: Usage | undefined): Decoded {
  return itemFailure("permanent", "filtered", `${name}: the model refused`, usage);
}

/** The model wants a tool, and nobody is there to run one. */
export function toolCall(name: string, usage: Usage | undefined): Decoded {
  return itemFailure("permanent", "unsupported_request", `${name} answered with a tool call`, usage);
}

/** The provider stopped for a reason of its own. */
export function brokenOff(name: string, usage: Usage | undefined): Decoded {
  return itemFailure("ambiguous", "provider_error", `${name} broke off the answer`, usage);
}

/** It ended as usual, and there is no text. */
export function withoutText(name: string, usage: Usage | undefined): Decoded {
  return itemFailure("ambiguous", "empty_output", `${name} answered without text`, usage);
}
