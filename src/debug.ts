/**
 * Decisions of the process on standard error, for people who look for the reason of something: PERIGEE_DEBUG=queue,limits
 *
 *   queue      which item is taken next, in which lane
 *   limits     what a lane waits for, and for how long
 *   attempts   how a request ended, and whether it is repeated
 *   holds      when a lane is in trouble, and when it answers again
 *   commits    group commits: how many runs, how long
 *
 * Lines name runs, lines of inputs, models and codes, never texts or keys. They are for people: programs read the journal.
 *
 * Hot path: a word that is not logged costs one read of a member that is undefined, and no text is made: below 1 ns.
 */
import { PerigeeError } from "./errors.ts";
import { suggestion } from "./nearest.ts";

export const DEBUG_WORDS = ["queue", "limits", "attempts", "holds", "commits"] as const;

export type DebugWord = (typeof DEBUG_WORDS)[number];

type Say = (text: string) => void;

/** Say what was decided: `debug.limits?.(text)`. Words that are not logged are undefined. */
export const debug: Record<DebugWord, Say | undefined> = {
  queue: undefined,
  limits: undefined,
  attempts: undefined,
  holds: undefined,
  commits: undefined,
};

/**
 * Logs the words in `names`, separated by commas, from now on and nothing of the others, with the time of `wallMs`. Without
 * `names` nothing changes. Throws `invalid_config` for an unknown word.
 */
export function setDebug(
  names: string | undefined,
  { wallMs }: { readonly wallMs: () => number },
  write: Say = (line) => process.stderr.write(line),
): void {
  if (names === undefined) return;
  const words = names.split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()]));
  const unknown = words.find((word) => !DEBUG_WORDS.some((known) => known === word));
  if (unknown !== undefined)
    throw new PerigeeError(
      "invalid_config",
      `PERIGEE_DEBUG: ${JSON.stringify(unknown)} is not a known word; ${suggestion(unknown, DEBUG_WORDS)}`,
    );
  for (const word of DEBUG_WORDS)
    debug[word] = words.includes(word)
      ? (text) => write(`${new Date(wallMs()).toISOString()} ${word}: ${text}\n`)
      : undefined;
}
