/**
 * Where the answers of a run over a table are: in its data folder, while the output is the table that they are joined with.
 */
import { resolve } from "node:path";

/** The name of the file in the data folder. */
export const ANSWERS = "answers.jsonl";

/** The absolute path of the engine's output. */
export function tableAnswers(dataDir: string): string {
  return resolve(dataDir, ANSWERS);
}
