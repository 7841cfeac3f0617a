/**
 * One code of an error: which lines of the tasks on this page have ended with it, and what happened to them.
 *
 * Limits: 20 lines, out of the first 1,000 failed ones of each of the 10 newest tasks with failures.
 */
import { byId, make, setText } from "./dom.js";
import { errorsOf } from "./errors_of_task.js";
import { count, shortId } from "./format.js";
import { lineElement } from "./task_panel.js";
import { nameOf } from "./tasks.js";

const TASKS_MAX = 10;
const LINES_MAX = 20;
const READ_MAX = 1_000;

let reading = new AbortController();

byId("code-close").addEventListener("click", () => byId("code-panel").close());
byId("code-panel").addEventListener("close", () => reading.abort());

/** `open(task)` shows a task that has such lines. */
export async function showCode(code, tasks, open) {
  reading.abort();
  const mine = new AbortController();
  reading = mine;
  setText(byId("code-heading"), code);
  byId("code-tasks").replaceChildren();
  setText(byId("code-note"), "Reading…");
  byId("code-panel").showModal();
  const failed = tasks.filter(({ counts }) => counts.failed + counts.expired > 0).slice(0, TASKS_MAX);
  let lines = 0;
  for (const task of failed) {
    if (lines >= LINES_MAX) break;
    const found = await linesWith(code, task, LINES_MAX - lines, mine.signal);
    if (mine.signal.aborted) return;
    lines += found.length;
    if (found.length > 0) byId("code-tasks").append(taskElement(task, found, open));
  }
  const where = `the ${count(failed.length)} newest tasks of this page with errors`;
  setText(
    byId("code-note"),
    lines === 0
      ? `No line with it in ${where}.`
      : `${count(lines)} ${lines === 1 ? "line" : "lines"} of ${where}.`,
  );
}

async function linesWith(code, { task_id: id }, most, signal) {
  const found = [];
  let read = 0;
  try {
    for await (const line of errorsOf(id, {
      signal,
      complainTo: (text) => text !== "" && setText(byId("code-note"), text),
    })) {
      if (line.code === code) found.push(line);
      read += 1;
      if (found.length === most || read === READ_MAX) break;
    }
  } catch {
    // it was closed, or the stream broke off: what was found is shown
  }
  return found;
}

function taskElement(task, lines, open) {
  const button = make("button", "link", nameOf(task));
  button.type = "button";
  button.addEventListener("click", () => {
    byId("code-panel").close();
    open(task);
  });
  const list = make("ul", "failed-lines", ...lines.map(lineElement));
  return make("section", "", make("h3", "", button, " ", make("code", "sub", shortId(task.task_id))), list);
}
