/**
 * A table and a prompt become lines of requests, in the browser: `{{column}}` stands for the row's value.
 *
 * Limits: a table of 256 MiB, in UTF-8. The lines are collected as a blob, which browsers keep on the disk when it is large.
 */
import { parse } from "./csv_parse.js";

const TABLE_BYTES_MAX = 256 * 1024 * 1024;
const PART_CHARS = 1_048_576;
const HEAD_BYTES = 65_536;
const PLACE = /\{\{\s*([^{}]+?)\s*\}\}/g;

/** The names of a table's columns. Throws an Error with words for the user. */
export async function columnsOf(file) {
  let columns;
  const head = (names) => {
    columns = names;
    return names;
  };
  await eachRow(file, file.slice(0, HEAD_BYTES), { columns: head }, () => undefined).catch((error) => {
    if (columns === undefined) throw error; // else the beginning of the file ends within a row
  });
  if (columns === undefined) throw new Error("The table is empty.");
  const twice = columns.find((one, index) => columns.indexOf(one) !== index);
  if (twice !== undefined) throw new Error(`The table has two columns "${twice}".`);
  return columns;
}

/**
 * A blob of one request a row. `keyColumn` names the column of keys; empty: the rows' numbers, from 1. Throws an Error with words for the
 * user, before anything is made when the prompt names a column that the table does not have.
 */
export async function tableToLines(file, { prompt, keyColumn, ...request }) {
  if (file.size > TABLE_BYTES_MAX)
    throw new Error("The table is larger than 256 MiB: use perigee run with it.");
  checkPlaces(prompt, await columnsOf(file));
  const parts = [];
  let [text, number] = ["", 0];
  await eachRow(file, file, { columns: true }, (row) => {
    number += 1;
    const input = prompt.replace(PLACE, (_, name) => row[name]);
    const key = keyColumn === "" ? String(number) : row[keyColumn];
    text += `${JSON.stringify({ key, ...request, input })}\n`;
    if (text.length < PART_CHARS) return;
    parts.push(new Blob([text]));
    text = "";
  });
  if (number === 0) throw new Error("The table has no rows below its heading.");
  return new Blob([...parts, text], { type: "application/jsonl" });
}

function checkPlaces(prompt, columns) {
  const named = [...prompt.matchAll(PLACE)].map(([, name]) => name);
  const unknown = named.find((name) => !columns.includes(name));
  if (unknown !== undefined)
    throw new Error(
      `The prompt names {{${unknown}}}, but the table has no such column. Its columns: ${columns.join(", ")}.`,
    );
  if (named.length === 0) throw new Error(`The prompt names no column, such as {{${columns[0] ?? "text"}}}.`);
}

/** Calls `take` with each row of `bytes`, which are the file or its beginning. */
async function eachRow({ name }, bytes, options, take) {
  const delimiter = name.toLowerCase().endsWith(".tsv") ? "\t" : ",";
  const parser = parse({ bom: true, skip_empty_lines: true, delimiter, ...options });
  parser.on("data", take);
  const over = new Promise((resolve, reject) => parser.on("end", resolve).on("error", reject));
  over.catch(() => undefined); // it is awaited below
  const reader = bytes
    .stream()
    .pipeThrough(new TextDecoderStream("utf-8", { fatal: options.columns === true }))
    .getReader();
  const ended = over.then(() => ({ done: true }));
  for (;;) {
    const { done, value } = await Promise.race([reader.read(), ended]);
    if (done) break;
    if (!parser.write(value))
      await Promise.race([new Promise((resolve) => parser.once("drain", resolve)), over]);
  }
  await reader.cancel().catch(() => undefined);
  parser.end();
  await over;
}
