/**
 * A prompt file: a template, after settings in YAML between two lines of `---` if there are any.
 *
 *   ---
 *   model: openai:gpt-5-mini
 *   temperature: 0
 *   max_output_tokens: 200
 *   ---
 *   Summarise this review in one sentence: {{review}}
 *
 * Settings are `model`, `system`, and the generation settings of an input line, under their names there; others are refused, and so are
 * settings that are not ended.
 */
import { readFile } from "node:fs/promises";
import { readDeclaration } from "../../clusters/declaration/yaml_declaration.ts";
import { errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { readGenerationConfig, SETTING_NAMES } from "../../jsonl/config.ts";
import { LineFault } from "../../jsonl/fault.ts";
import { suggestion } from "../../nearest.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import { modelId } from "../values.ts";

/** A file of text that belongs to a command, at most. */
const FILE_BYTES_MAX = 4 * 1024 * 1024;
const OWN_NAMES = ["model", "system"] as const;
const OPENED = /^---[ \t]*\n/;
const FRONT_MATTER = /^---[ \t]*\n([\s\S]*?)(?:^|\n)---[ \t]*(?:\n|$)/;

/** A prompt file that was read. */
export interface PromptFile {
  readonly text: string;
  readonly model: string | undefined;
  readonly system: string | undefined;
  /** Generation settings as they are written. */
  readonly settings: JsonObject;
}

/** Throws `usage` naming the file, and the line where that is known; `input_unreadable`. */
export async function readPromptFile(path: string): Promise<PromptFile> {
  const whole = await readTextFile(path, "--prompt");
  const front = FRONT_MATTER.exec(whole);
  if (front === null && OPENED.test(whole))
    throw new PerigeeError(
      "usage",
      `${path}: line 1 opens settings with ---, and no other line --- ends them; a prompt that begins with --- needs a blank line before it`,
    );
  const text = (front === null ? whole : whole.slice(front[0].length)).replace(/\n$/, "");
  if (text.trim() === "")
    throw new PerigeeError(
      "usage",
      `${path} has no prompt${front === null ? ": it is empty" : " after its settings"}`,
    );
  return { text, ...settingsOf(front?.[1] ?? "", path) };
}

/** A text in UTF-8, without a byte order mark, with LF as line ends. Throws `input_unreadable`. */
export async function readTextFile(path: string, option: string): Promise<string> {
  const bytes = await readFile(path).catch((cause: unknown) => {
    const why = errorCodeOf(cause) === "ENOENT" ? "does not exist" : `cannot be read (${errorCodeOf(cause)})`;
    const hint = /\s|\{\{/.test(path) ? `; ${option} takes the name of a file: write the text into one` : "";
    throw new PerigeeError("input_unreadable", `${option}: ${path.slice(0, 200)} ${why}${hint}`, { cause });
  });
  if (bytes.byteLength > FILE_BYTES_MAX)
    throw new PerigeeError("input_unreadable", `${option}: ${path} has more than ${FILE_BYTES_MAX} bytes`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replaceAll("\r\n", "\n");
  } catch (cause) {
    throw new PerigeeError("input_unreadable", `${option}: ${path} is not UTF-8`, { cause });
  }
}

function settingsOf(yaml: string, path: string): Omit<PromptFile, "text"> {
  const { value, issues } = readDeclaration(yaml);
  const [issue] = issues.list;
  if (issue !== undefined) {
    const line = issue.line === undefined ? "" : `:${issue.line + 1}`; // the first line is ---
    throw new PerigeeError(
      "usage",
      `${path}${line}: the settings: ${[issue.path, issue.message].filter(Boolean).join(" ")}`,
    );
  }
  if (value !== null && !isObject(value))
    throw new PerigeeError(
      "usage",
      `${path}: the settings must be names with values, such as temperature: 0`,
    );
  const { model, system, ...settings } = value ?? {};
  const unknown = Object.keys(settings).find((name) => !SETTING_NAMES.includes(name));
  if (unknown !== undefined) {
    const hint = suggestion(unknown, [...OWN_NAMES, ...SETTING_NAMES]);
    throw new PerigeeError(
      "usage",
      `${path}: ${JSON.stringify(unknown.slice(0, 64))} is not a setting${hint === "" ? "" : `; ${hint}`}`,
    );
  }
  const read = readGenerationConfig(settings, undefined);
  if (read instanceof LineFault) throw new PerigeeError("usage", `${path}: ${read.message}`);
  return { model: modelOf(model, path), system: textOf(system, "system", path), settings };
}

function modelOf(given: unknown, path: string): string | undefined {
  const text = textOf(given, "model", path);
  if (text === undefined) return undefined;
  try {
    return modelId(text);
  } catch (cause) {
    throw new PerigeeError("usage", `${path}: model: ${(cause as Error).message}`, { cause }); // a PerigeeError of modelId
  }
}

function textOf(given: unknown, name: string, path: string): string | undefined {
  if (given === undefined || given === null || typeof given === "string") return given ?? undefined;
  throw new PerigeeError("usage", `${path}: ${name} must be a text`);
}
