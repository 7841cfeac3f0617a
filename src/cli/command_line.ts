/**
 * Commands as they are shown to a user.
 */

/** The command as the user typed it, quoted for a POSIX shell. */
export function commandLine(words: readonly string[]): string {
  const quoted = words.map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`,
  );
  return ["perigee", ...quoted].join(" ");
}
