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

export const CACHE = {
  dir: [
    "--cache <dir>",
    "answer requests from this folder that were answered before, by any run, and keep new answers there",
  ],
  ttl: ["--cache-ttl <duration>", "with --cache: how old an answer may be (default: 30d)"],
  coalesce: [
    "--coalesce",
    "with --cache: ask once for lines with the same request, also where their temperature is not 0",
  ],
} as const;

export const SCHEMA = [
  "--schema <file>",
  "JSON Schema that every answer must fit; one that does not is asked for again, with what is wrong. With --prompt, each of its properties is a column",
] as const;

export const SCHEMA_TRIES = [
  "--schema-tries <n>",
  "answers for a line at most, the first included: 1 to 3 (default: 3)",
] as const;

export const DELIVERY = [
  "--delivery <mode>",
  "whether to ask again when an answer may have been lost (default: at_least_once)",
] as const;

export const LANES = {
  policy: ["--policy <policy>", "how the price weighs against the deadline (default: cheapest)"],
  minOnTime: [
    "--min-on-time <share>",
    "share of answers in realtime whose time is kept before the deadline (default: 0.99)",
  ],
  allow: [
    "--allow-lanes <lanes>",
    "use only these lanes besides realtime: flex, slow, batch, deferred, offpeak, or one at a provider, such as openai:flex",
  ],
  deny: ["--deny-lanes <lanes>", "do not use these lanes"],
} as const;

export const DETACH = [
  "--detach",
  "end as soon as all that is left is with batches at providers; the same command collects them later",
] as const;

export const CANCEL = [
  "--cancel",
  "cancel the run and its batches, and keep what they have answered by then",
] as const;

export const NO_LEARN = ["--no-learn", "do not use or keep what was learnt about providers"] as const;

export const QUIET = [
  "-q, --quiet",
  "write errors only: no progress, and no summary; nothing at all on standard error if every line is answered",
] as const;

export const STATE = [
  "--state <dir>",
  "folder that keeps what was learnt about providers, for all runs (default: $XDG_STATE_HOME/perigee, else ~/.local/state/perigee)",
] as const;

/** Flag and words of `unsupportedConfig`. */
export const UNSUPPORTED = [
  "--unsupported-config <how>",
  "settings that a model does not support: leave them out, or refuse their lines (default: sampling settings are left out, others refused)",
] as const;
