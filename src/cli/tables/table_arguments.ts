/**
 * A table and a prompt as a command names them: opened and checked against each other, before anything is written or sent.
 */
import { createHash } from "node:crypto";
import { PerigeeError } from "../../errors.ts";
import { type AnswerColumns, answerColumns } from "../../tables/answer_columns.ts";
import { openTable } from "../../tables/open_table.ts";
import { type RequestLines, requestLines } from "../../tables/requests.ts";
import { ALL_ROWS, firstRows, type RowChoice, sampledRows } from "../../tables/row_choice.ts";
import type { Table } from "../../tables/table.ts";
import { readTemplate } from "../../tables/template.ts";
import type { JsonObject } from "../../work/json.ts";
import { readPromptFile, readTextFile } from "./prompt_file.ts";
import { readColumnsSchema } from "./schema_columns.ts";
import { isTableCall } from "./table_options.ts";

/** Options as commander parses them. */
export interface TableArguments {
  readonly prompt?: string;
  readonly system?: string;
  readonly model?: string;
  readonly schema?: string;
  readonly key?: string;
  readonly prefix?: string;
  readonly delimiter?: string;
  readonly limit?: number;
  readonly sample?: number;
  readonly seed?: number;
}

/** A table that can be asked. */
export interface AskedTable {
  readonly table: Table;
  readonly requests: RequestLines;
  readonly choice: RowChoice;
  readonly added: AnswerColumns;
  /** Of all that shapes a request line, but for the table and the rows that are chosen. */
  readonly promptHash: string;
  /** Of the choice of rows. */
  readonly choiceHash: string;
  /** What is probably not meant. */
  readonly warnings: readonly string[];
}

/** Undefined without `--prompt`. Throws `usage`, `input_unreadable`, `unsupported_encoding`. */
export async function askedTable(input: string, given: TableArguments): Promise<AskedTable | undefined> {
  if (!isTableCall(given) || given.prompt === undefined) return undefined;
  checkOptions(input, given);
  const file = await readPromptFile(given.prompt);
  const model = file.model ?? given.model;
  if (model === undefined)
    throw new PerigeeError(
      "usage",
      `no model is named: add --model, or the line "model: <provider>:<name>" to the settings of ${given.prompt}`,
    );
  const schema = given.schema === undefined ? undefined : await readColumnsSchema(given.schema);
  const systemText = given.system === undefined ? file.system : await readTextFile(given.system, "--system");
  if (given.system !== undefined && file.system !== undefined)
    throw new PerigeeError("usage", `--system and "system" in ${given.prompt}: remove one of them`);
  const { settings } = file;
  checkForm(settings, given);
  const names = { prompt: given.prompt, system: given.system ?? given.prompt };
  const prompt = readTemplate(file.text, names.prompt);
  const system =
    systemText === undefined ? undefined : readTemplate(systemText.replace(/\n$/, ""), names.system);
  const table = await openTable(input, given.delimiter === undefined ? {} : { delimiter: given.delimiter });
  // Of each request, so that rows that another schema was asked of are other rows.
  const asked = {
    prompt,
    system,
    model: file.model,
    settings,
    schema: schema?.schema,
    key: given.key,
    names,
  };
  const requests = requestLines(table, asked);
  const isConstant = prompt.columns.length === 0 && (system?.columns.length ?? 0) === 0;
  return {
    ...{ table, requests },
    choice: await choiceOf(table, given),
    added: answerColumns(table, schema?.columns, given.prefix),
    promptHash: hashOf([
      ...[file.text, systemText, file.model, settings, schema?.schema, given.key],
      table.csv?.delimiter,
    ]),
    choiceHash: hashOf([given.limit, given.sample, given.sample === undefined ? 0 : (given.seed ?? 0)]),
    warnings: isConstant
      ? [
          `warning: ${given.prompt} names no column, so every row has the same prompt: write {{${table.columns[0]?.name}}} where its text belongs`,
        ]
      : [],
  };
}

function checkOptions(input: string, given: TableArguments): void {
  if (input === "-")
    throw new PerigeeError(
      "usage",
      "--prompt needs a table in a file, which is read more than once: write standard input to a file first",
    );
  if (given.limit !== undefined && given.sample !== undefined)
    throw new PerigeeError("usage", "--limit and --sample both choose rows: remove one of them");
  if (given.seed !== undefined && given.sample === undefined)
    throw new PerigeeError("usage", "--seed works only with --sample: add --sample with a number of rows");
}

/** Throws `usage` where the prompt file asks for a form of the answer as well. */
function checkForm(settings: JsonObject, given: TableArguments): void {
  if (given.schema === undefined) return;
  const twice = ["response_json_schema", "responseJsonSchema", "response_schema", "responseSchema"].find(
    (name) => settings[name] !== undefined,
  );
  if (twice !== undefined)
    throw new PerigeeError("usage", `--schema and "${twice}" in ${given.prompt}: remove one of them`);
}

async function choiceOf(table: Table, { limit, sample, seed = 0 }: TableArguments): Promise<RowChoice> {
  if (limit !== undefined) return firstRows(limit);
  if (sample === undefined) return ALL_ROWS;
  let rowCount = 0;
  for await (const { rows } of table.batches()) rowCount += rows.length;
  return sampledRows(rowCount, sample, seed);
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);
}
