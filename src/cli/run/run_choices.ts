/**
 * Words of options of `perigee run`: their flags and texts.
 */
export const FORMAT = [
  "--format <format>",
  "of the lines: perigee; openai (OpenAI's batch output) or raw, both with the provider's own body (default: perigee)",
] as const;

export const FIELDS = [
  "--fields <names>",
  "members of a line beside key and output (comma separated; none: no others)",
] as const;

export const RECEIPTS = [
  "--receipts <file>",
  "write a receipt for each line when the run ends: how it was sent and what it cost, chained by hashes",
] as const;

export const DELIVERY = [
  "--delivery <mode>",
  "whether to ask again when an answer may have been lost (default: at_least_once)",
] as const;
