/**
 * `perigee init`: writes a configuration in which every line is a comment, and says what to do next.
 *
 * A line that begins with `# ` and a word is an explanation; any other comment is configuration, used once its `#` is removed.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";

const FILE = "perigee.config.yaml";
/** Lines of a `.gitignore` that leave out `.env`. */
const IGNORES_ENV = /^\/?(?:\*\*\/)?\.env\*?$/m;

/** Returns the exit code. Throws `usage` for a name that is not of YAML, `conflict` where the file exists. */
export async function init(file: string = FILE): Promise<number> {
  if (!/\.ya?ml$/i.test(file))
    throw new PerigeeError(
      "usage",
      `${file}: the configuration is written as YAML; name a file such as ${FILE}`,
    );
  try {
    writeFileSync(file, CONFIGURATION, { flag: "wx" });
  } catch (cause) {
    if (errorCodeOf(cause) !== "EEXIST") throw cause;
    throw new PerigeeError(
      "conflict",
      `${file} exists and is not changed; perigee init OTHER.yaml writes another`,
      {
        cause,
      },
    );
  }
  const how = file === FILE ? "commands in this folder and below use it" : `use it with --config ${file}`;
  process.stdout.write(
    `wrote ${file}: ${how}, once you remove the # in front of a line\n${ignoreHint()}next: perigee doctor\n`,
  );
  return 0;
}

/** Keys belong in `.env`, and `.env` in no repository. */
function ignoreHint(): string {
  const keys = "keys belong in the environment or in .env, as OPENAI_API_KEY=...\n";
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    if (isIgnoredBy(join(folder, ".gitignore"))) return keys;
    if (existsSync(join(folder, ".git")))
      return `${keys}add .env to .gitignore before you write keys into it\n`;
    if (dirname(folder) === folder) return keys;
  }
}

function isIgnoredBy(path: string): boolean {
  try {
    return IGNORES_ENV.test(readFileSync(path, "utf8"));
  } catch {
    return false; // it does not exist
  }
}

/** Every name is one of docs/reference/config.md; the values are examples, or the defaults where a line says so. */
export const CONFIGURATION = `# Configuration of perigee. Remove the # in front of a line to use it; a line without a # in front must keep its place.
# Commands use the nearest perigee.config.yaml of their folder and those above, up to the root of the repository.
# All names: docs/reference/config.md. Check it: perigee doctor. Keys belong in the environment or in .env, not here.

# Providers. Known ones (openai, anthropic, gemini, groq, ...) need only their key; a name of your own needs the base URL of
# a server that speaks OpenAI's protocol (vLLM, llama.cpp, a gateway), or says which protocol it speaks.
#providers:
#  mybox:
#    baseUrl: http://127.0.0.1:8000/v1
#    needsKey: false
#  gateway:
#    baseUrl: https://gateway.example.com/anthropic
#    protocol: anthropic
#    timeoutMs: 600000

# Limits of your account, for a provider or for one family of its models. Without them perigee learns them from headers and 429s.
#limits:
#  openai:
#    requestsPerMinute: 500
#    tokensPerMinute: 200000
#  openai:mini:
#    requestsPerMinute: 300
#  mybox:
#    concurrency: 64

# Models that share their limits, besides dated snapshots of one model.
#families:
#  openai:
#    gpt-4o-mini*: mini

# A name for several models: the first one that can answers.
#models:
#  small:
#    - openai:gpt-4o-mini
#    - groq:llama-3.1-8b-instant

# Prices in USD per million tokens, where yours are other ones, or none is known.
#prices:
#  mybox:*:
#    inputUsdPerMillion: 0
#    outputUsdPerMillion: 0

# A cap for all runs that share a data folder. For one run: --max-cost.
#cap:
#  name: november
#  usd: 50

# Cheaper ways to send, used only with --sla: flex, slow, batch, deferred, offpeak, or one at a provider. Default: all.
#lanes:
#  deny:
#    - openai:flex
# How the price weighs against the deadline: cheapest (default), balanced or fastest.
#policy: cheapest
# Share of answers in realtime whose time is kept before the deadline (default: 0.99).
#minOnTime: 0.99

# Prompt caches for long beginnings that items share (default: true).
#prefixes:
#  enabled: true

# Settings that a model does not take: drop, or refuse the item. Default: sampling settings are dropped, others refused.
#unsupportedConfig: drop
# at_least_once (default), or at_most_once: whether to ask again when an answer may have been lost.
#delivery: at_least_once
# Send a second request beside one that hangs; both may be billed (default: false).
#hedge: false
# Requests in flight for each provider at most (default: 512).
#maxInFlight: 512
# The longest that one request may take, in milliseconds (default: 600000).
#attemptMsMax: 600000
# How long a run waits when only held items are left, in milliseconds (default: 1800000).
#waitMs: 1800000
`;
