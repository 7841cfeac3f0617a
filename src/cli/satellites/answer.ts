/**
 * What a command that is not a run prints: text for people, or one object with `--json`, also of an error.
 */
import { errorJson } from "../exit.ts";

export interface Answer {
  readonly json: object;
  readonly text: string;
}

/** Resolves with 0 once the answer is printed; what `work` throws is printed as JSON if requested, and thrown on. */
export async function answer(
  { json }: { readonly json?: boolean | undefined },
  work: () => Promise<Answer>,
): Promise<number> {
  try {
    const found = await work();
    process.stdout.write(json === true ? `${JSON.stringify(found.json)}\n` : found.text);
    return 0;
  } catch (error) {
    if (json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}
