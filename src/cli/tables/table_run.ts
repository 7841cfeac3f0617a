/**
 * A run over a table: its request lines before, and the joined output after.
 *
 *   table + prompt --requests--> DATA/requests-<hash>.jsonl --engine--> DATA/answers.jsonl
 *   table + answers --joined--> OUT, beside its place, then renamed
 *
 * Each step can be cut off anywhere and is begun again by the same command. The file of requests is named by the state of the table, the
 * prompt and the choice of rows; it is made again where it is missing, and the engine compares its bytes with those that the run began
 * with: another table or prompt is `input_changed`. Another choice of rows of the same table and prompt is an update of the run: what
 * was answered is kept.
 */
import { mkdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type FileStat, systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { joinedRows } from "../../tables/joined_rows.ts";
import { type TableFormat, tableFormat } from "../../tables/table.ts";
import { writeTable } from "../../tables/table_file.ts";
import { writeWhole } from "../../tables/whole_file.ts";
import { refuseSameFile } from "../input.ts";
import { ANSWERS, tableAnswers } from "./answers_place.ts";
import { writeRequests } from "./requests_file.ts";
import { type AskedTable, askedTable, type TableArguments } from "./table_arguments.ts";
import { type TableStep, tableDisk } from "./table_disk.ts";

const RECORD = "table.json";

interface TableRunArguments extends TableArguments {
  readonly out: string;
  readonly data?: string;
  readonly format?: unknown;
  readonly fields?: unknown;
}

/** What the data folder says of the table. */
interface TableRecord {
  readonly version: 1;
  /** Hashes of the table with its prompt, and of the choice of rows, that the run was opened with last. */
  readonly asked: string;
  readonly choice: string;
  /** The output as this run wrote it, the last one first: a crash may have left the one before. And what the last one was made of. */
  readonly written?: readonly string[];
  readonly of?: string;
}

/** A run over a table, from its options to its output. */
export class TableRun {
  /** What the engine reads and writes. */
  readonly requests: string;
  readonly answers: string;
  readonly #asked: AskedTable;
  readonly #out: string;
  readonly #dataDir: string;
  readonly #format: TableFormat;
  readonly #askedHash: string;
  /** The table as its request lines were made of it. */
  readonly #state: FileStat;
  #record: TableRecord | undefined;

  private constructor(
    asked: AskedTable,
    place: { readonly out: string; readonly dataDir: string; readonly format: TableFormat },
    state: FileStat,
  ) {
    this.#asked = asked;
    this.#out = resolve(place.out);
    this.#dataDir = place.dataDir;
    this.#format = place.format;
    this.#state = state;
    this.#askedHash = `${stateText(state).replaceAll(":", "-")}-${asked.promptHash}`;
    this.requests = resolve(place.dataDir, `requests-${this.#askedHash}-${asked.choiceHash}.jsonl`);
    this.answers = tableAnswers(place.dataDir);
  }

  /** Checks all that can be checked without writing; undefined without `--prompt`. */
  static async open(input: string, given: TableRunArguments): Promise<TableRun | undefined> {
    const asked = await askedTable(input, given);
    if (asked === undefined) return undefined;
    for (const name of ["format", "fields"] as const)
      if (given[name] !== undefined)
        throw new PerigeeError(
          "usage",
          `--${name} is for lines of answers, and a table has columns: remove it; the lines are in ${ANSWERS} of the data folder`,
        );
    const format = tableFormat(given.out);
    if (format === undefined)
      throw new PerigeeError(
        "usage",
        `--out ${given.out}: a table is written as .csv, .tsv, .jsonl or .parquet, by the end of the name`,
      );
    await refuseSameFile(input, given.out);
    const state = await systemDisk.stat(input);
    if (state?.isSeekable !== true)
      throw new PerigeeError("input_unreadable", `${input} is not a file that can be read more than once`);
    const place = { out: given.out, dataDir: given.data ?? `${given.out}.perigee`, format };
    return new TableRun(asked, place, state);
  }

  /** Whether the run was opened with other rows of the same table and prompt. */
  get isOtherChoice(): boolean {
    const record = this.#record;
    return record?.asked === this.#askedHash && record.choice !== this.#asked.choiceHash;
  }

  get warnings(): readonly string[] {
    return this.#asked.warnings;
  }

  /** Makes the request lines, unless they exist. The data folder is this process's own by now. Throws as reading a table does, and as `tableDisk`. */
  async prepare(step: TableStep): Promise<void> {
    await mkdir(this.#dataDir, { recursive: true });
    this.#record = await readRecord(join(this.#dataDir, RECORD));
    await this.#checkOut();
    if (await exists(this.requests)) return;
    await this.#removeRequests();
    await writeRequests(tableDisk(systemDisk, step), this.#asked, this.requests);
  }

  /** The engine has accepted the request lines. */
  async opened(): Promise<void> {
    await this.#save({
      ...this.#record,
      ...{ version: 1, asked: this.#askedHash, choice: this.#asked.choiceHash },
    });
  }

  /** Writes the output, unless it is there and of the same answers. Throws as `tableDisk`. */
  async finish(step: TableStep): Promise<void> {
    const { table, requests, choice, added, promptHash, choiceHash } = this.#asked;
    const answers = stateText(await stateOf(this.answers));
    const of = [
      answers,
      this.#askedHash,
      promptHash,
      choiceHash,
      added.columns.map(({ name }) => name),
    ].join();
    const now = await systemDisk.stat(this.#out);
    const isThere =
      now !== undefined && stateText(now) === this.#record?.written?.[0] && this.#record.of === of;
    if (!isThere) {
      const joined = joinedRows(systemDisk, table, {
        keyOf: requests.keyOf,
        choice,
        added,
        answers: this.answers,
      });
      const shape = {
        ...{ format: this.#format, columns: [...table.columns, ...added.columns] },
        ...(table.csv === undefined ? {} : { csv: table.csv }),
      };
      await writeTable(tableDisk(systemDisk, step), this.#out, shape, joined, async (state) => {
        await this.#checkTable();
        const before = now === undefined ? [] : [stateText(now)];
        const written = state === undefined ? before : [stateText(state), ...before];
        await this.#save({ version: 1, asked: this.#askedHash, choice: choiceHash, written, of });
      });
    }
  }

  /** An error with the name of the table in place of the file that was made of it. */
  words(error: unknown): unknown {
    if (!(error instanceof PerigeeError)) return error;
    const { code, message, details } = error;
    const { name } = this.#asked.table;
    const text = message
      .replaceAll(this.requests, name)
      .replace("to answer the new lines", "to ask the rows that are new or changed")
      .replace(
        /^lines (\d+ and \d+) have the same key/,
        `rows $1 that are asked of ${name} have the same key`,
      );
    return text === message ? error : new PerigeeError(code, text, { details, cause: error });
  }

  /** Throws where the output is another's, or was changed since this run wrote it. */
  async #checkOut(): Promise<void> {
    const found = await systemDisk.stat(this.#out);
    if (found === undefined) return;
    if (!found.isSeekable)
      throw new PerigeeError("output_unwritable", `${this.#out} is not a file: name a file for the answers`);
    if (found.sizeBytes === 0) return;
    const written = this.#record?.written;
    if (written?.includes(stateText(found)) === true) return;
    if (written !== undefined)
      throw new PerigeeError(
        "output_changed",
        `${this.#out} was changed after this run wrote it: move it away, and the same command writes it again from the answers it has`,
      );
    throw new PerigeeError(
      "output_unwritable",
      `${this.#out} already holds ${found.sizeBytes} bytes that this run did not write; use another output, or move it away`,
    );
  }

  async #checkTable(): Promise<void> {
    const { name } = this.#asked.table;
    const now = await systemDisk.stat(name);
    if (now !== undefined && stateText(now) === stateText(this.#state)) return;
    throw new PerigeeError(
      "input_changed",
      `${name} was changed while the run was at work; nothing answered is lost: put it back as it was and run the same command again`,
    );
  }

  async #removeRequests(): Promise<void> {
    const names = await systemDisk.list(this.#dataDir);
    for (const name of names)
      if (/^requests-.*\.jsonl(\.part)?$/.test(name)) await systemDisk.remove(join(this.#dataDir, name));
  }

  async #save(record: TableRecord): Promise<void> {
    this.#record = record;
    const path = join(this.#dataDir, RECORD);
    await writeWhole(systemDisk, path, (append) => append(Buffer.from(`${JSON.stringify(record)}\n`)));
  }
}

/** One that cannot be read counts as none: then the output is not replaced. */
async function readRecord(path: string): Promise<TableRecord | undefined> {
  try {
    const record = JSON.parse(await readFile(path, "utf8")) as TableRecord; // as this version writes it
    return record.version === 1 ? record : undefined;
  } catch {
    return undefined;
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function stateOf(path: string): Promise<FileStat> {
  const found = await systemDisk.stat(path);
  if (found === undefined) throw new PerigeeError("output_changed", `${path} does not exist: put it back`);
  return found;
}

function stateText({ sizeBytes, modifiedMs, identity }: FileStat): string {
  return `${sizeBytes}:${modifiedMs}:${identity}`;
}
