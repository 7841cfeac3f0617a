/**
 * A custom satellite that uses a configured one of its project: host it with `perigee orbit serve`.
 */
import { defineSatellite } from "perigee/satellites";
import { z } from "zod";

export const releaseNotes = defineSatellite({
  name: "release-notes",
  description: "Writes release notes from a list of changes, each in plain English.",
  input: z.strictObject({ changes: z.array(z.string()).min(1).max(100) }),
  output: z.strictObject({ text: z.string() }),
  isRepeatable: true,
  run: async ({ input, execute }) => {
    const plain = await execute("plain", {
      satellite: "satellite/acme/plain-english",
      input: { prompt: input.changes },
    });
    const responses = plain["responses"] as { response: string | null }[]; // as batch inference gives them
    return { text: responses.map(({ response }) => `- ${response}`).join("\n") };
  },
});
