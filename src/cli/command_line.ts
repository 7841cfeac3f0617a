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

/** The words without an option and its value, if it has one; a word that begins with `-` is another option. */
export function withoutOption(words: readonly string[], flag: string): readonly string[] {
  return words.filter(
    (word, index) =>
      word !== flag && !word.startsWith(`${flag}=`) && !(words[index - 1] === flag && !word.startsWith("-")),
  );
}
