/**
 * The thread of a cache of answers: opens its database, then does requests in the order in which they arrive.
 *
 *   opening -> open -> closed
 *   opening -> failed                   the folder cannot be made or written, or a newer version made the database
 *   open | opening --damaged--> open    the files are moved aside, and an empty database takes their place; once
 *
 * Another process that has the moved files open works on in them, and finds the new ones when it opens the cache again.
 */
import { existsSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { errorCodeOf } from "../../disk.ts";
import { hasCode, messageOf } from "../../errors.ts";
import { openPrivately } from "../folder/data_dir.ts";
import { loadSqlite, type OpenDatabase } from "../sqlite_database.ts";
import { isBusy, storeFailure } from "../sqlite_failure.ts";
import { AnswerTable } from "./answer_table.ts";
import {
  type AnswersReply,
  type AnswersRequest,
  type AnswersThreadData,
  nothingFor,
} from "./answers_requests.ts";

/** The database in the cache's folder. */
const FILE = "answers.sqlite";

async function serve({ dir, maxBytes }: AnswersThreadData): Promise<void> {
  const say = (reply: AnswersReply): void => parentPort?.postMessage(reply);
  let answers: Answers;
  try {
    answers = new Answers(await loadSqlite(), { dir, maxBytes }, (message) => say({ kind: "note", message }));
  } catch (error) {
    say({ kind: "failed", id: 0, message: messageOf(error) });
    parentPort?.close();
    return;
  }
  say({ kind: "done", id: 0 });
  parentPort?.on("message", (request: AnswersRequest) => {
    try {
      say(answers.handle(request));
    } catch (error) {
      say({ kind: "failed", id: request.id, message: messageOf(error) });
    }
    if (request.kind === "close") parentPort?.close();
  });
}

class Answers {
  readonly #open: OpenDatabase;
  readonly #data: AnswersThreadData;
  readonly #note: (message: string) => void;
  #table: AnswerTable;
  #isRenewed = false;

  constructor(open: OpenDatabase, data: AnswersThreadData, note: (message: string) => void) {
    this.#open = open;
    this.#data = data;
    this.#note = note;
    makeFolders(data.dir);
    this.#table = this.#opened();
  }

  /** A cache that others keep busy for seconds finds and keeps nothing this time. */
  handle(request: AnswersRequest): AnswersReply {
    try {
      return this.#handle(request);
    } catch (error) {
      if (isBusy(error)) return nothing(request);
      if (!hasCode(storeFailure(error, ""), "store_damaged") || this.#isRenewed) throw error;
      this.#table.close();
      this.#table = this.#renewed(error);
      return this.#handle(request);
    }
  }

  #handle(request: AnswersRequest): AnswersReply {
    const { id, kind } = request;
    if (kind === "find") return { kind: "found", id, answers: this.#table.find(request) };
    if (kind === "keep") this.#table.keep(request);
    else this.#table.close();
    return { kind: "done", id };
  }

  #opened(): AnswerTable {
    try {
      return this.#tableOf();
    } catch (error) {
      if (!hasCode(storeFailure(error, ""), "store_damaged")) throw error;
      return this.#renewed(error);
    }
  }

  #tableOf(): AnswerTable {
    const database = openPrivately(this.#open, join(this.#data.dir, FILE));
    try {
      return new AnswerTable(database, this.#data.maxBytes);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  #renewed(cause: unknown): AnswerTable {
    this.#isRenewed = true;
    const path = join(this.#data.dir, FILE);
    for (const end of ["", "-journal"]) moveAside(`${path}${end}`, `${path}${end}.damaged`);
    this.#note(
      `${path} is damaged (${messageOf(cause)}); it is now ${path}.damaged, and the cache starts empty`,
    );
    return this.#tableOf();
  }
}

/** One after the other: where the last one cannot be made (`/proc`), `recursive` of Node 20 tries for ever. */
function makeFolders(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    const code = errorCodeOf(error);
    if (code === "EEXIST") {
      if (!statSync(dir).isDirectory()) throw new Error("it is a file; name a folder");
      return;
    }
    const parent = dirname(dir);
    if (code !== "ENOENT" || parent === dir || existsSync(parent)) throw error;
    makeFolders(parent);
    mkdirSync(dir, { mode: 0o700 });
  }
}

function moveAside(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (errorCodeOf(error) !== "ENOENT") throw error;
  }
}

function nothing(request: AnswersRequest): AnswersReply {
  const { id } = request;
  if (request.kind !== "find") return { kind: "done", id };
  return { kind: "found", id, answers: nothingFor(request.keys) };
}

if (!isMainThread) await serve(workerData as AnswersThreadData); // answer_cache.ts starts it so; at the end, where its class exists
