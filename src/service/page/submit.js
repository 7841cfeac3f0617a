/**
 * A new task: a prompt, a file of lines or a table with a prompt; quoted first, then submitted.
 *
 *   edited -> (quote: files are uploaded once) -> quoted -> submitted          any edit -> edited
 *
 * A file that was quoted and not submitted stays among the files of the project until its retention ends. A submission that is repeated
 * after it was not answered is the same one: it has the same idempotency key.
 */
import { byId, make, setText } from "./dom.js";
import { compact, count, duration, usd } from "./format.js";
import { ask, askJson, tell } from "./service.js";
import { columnsOf, tableToLines } from "./table.js";

/** What was quoted: the items and the key of their submission. */
let quoted = null;
/** The file that was uploaded last, and what it was made of. */
let uploaded = null;
let isBusy = false;

const form = byId("submit-form");
form.addEventListener("input", edited);
form.addEventListener("change", (event) => {
  if (event.target.name === "kind") showKind();
  if (event.target.id === "submit-table") showColumns();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!isBusy) run(quoted === null ? quote : submit);
});
byId("submit-close").addEventListener("click", () => byId("submit-panel").close());

/** `snapshot` has the models that the project has used, to choose from. */
export function openSubmit(snapshot) {
  const models = new Set((snapshot?.lanes ?? []).map(({ provider, family }) => `${provider}:${family}`));
  byId("submit-models").replaceChildren(
    ...[...models].map((model) => {
      const option = make("option");
      option.value = model;
      return option;
    }),
  );
  setText(byId("submit-problem"), "");
  showKind();
  edited();
  byId("submit-panel").showModal();
}

function kind() {
  return new FormData(form).get("kind");
}

/** Shows the fields of a kind; the others count for nothing. */
function showKind() {
  const shown = kind();
  for (const field of form.querySelectorAll("[data-for]")) {
    const isShown = field.dataset.for.split(" ").includes(shown);
    field.hidden = !isShown;
    for (const input of field.querySelectorAll("input, textarea, select")) input.disabled = !isShown;
  }
}

async function showColumns() {
  const [file] = byId("submit-table").files;
  const keys = byId("submit-key");
  keys.replaceChildren(keys.options[0]);
  setText(byId("submit-columns"), "");
  if (file === undefined) return;
  try {
    const columns = await columnsOf(file);
    setText(byId("submit-columns"), `Columns: ${columns.map((name) => `{{${name}}}`).join(", ")}`);
    for (const name of columns) {
      const option = make("option", "", name);
      option.value = name;
      keys.append(option);
    }
  } catch (error) {
    problem(`The table could not be read: ${error.message}`);
  }
}

function edited() {
  quoted = null;
  byId("quote").replaceChildren();
  setText(byId("submit-go"), "Quote");
}

/** One step at a time; what goes wrong is shown. */
async function run(step) {
  isBusy = true;
  byId("submit-go").disabled = true;
  problem("");
  try {
    await step();
  } catch (error) {
    problem(error.message);
  }
  byId("submit-go").disabled = false;
  isBusy = false;
}

async function quote() {
  setText(byId("quote"), "Being quoted…");
  const items = await itemsOfForm();
  const response = items && (await askJson("POST", "v0/quote", items, { complainTo: problem }));
  if (response == null) {
    byId("quote").replaceChildren();
    return;
  }
  const found = await response.json();
  quoted = { items, key: randomKey() };
  showQuote(found, items[0].sla);
  setText(byId("submit-go"), "Submit");
  byId("submit-go").focus();
}

async function submit() {
  const { items, key } = quoted;
  const headers = { "idempotency-key": key, "output-format": "jsonl" };
  const response = await askJson("POST", "v0/infer/", items, { headers, complainTo: problem });
  if (response === undefined) return;
  const { task_id: id } = await response.json();
  byId("submit-panel").close();
  uploaded = null;
  form.reset();
  tell(`Task ${id.slice(-8)} is submitted`);
  byId("tasks-heading").focus();
}

/** Undefined after a failure that was shown. Throws an Error with words for the user. */
async function itemsOfForm() {
  const given = new FormData(form);
  const sla = Number(given.get("sla"));
  if (kind() === "prompt") return [{ ...requestOf(given), input: given.get("prompt"), sla }];
  const file = byId(kind() === "file" ? "submit-file" : "submit-table").files[0];
  if (file === undefined) throw new Error("Choose a file first.");
  const terms = { ...requestOf(given), prompt: given.get("prompt"), keyColumn: given.get("key") };
  const madeOf = JSON.stringify([
    kind(),
    file.name,
    file.size,
    file.lastModified,
    kind() === "file" ? "" : terms,
  ]);
  if (uploaded?.madeOf !== madeOf) {
    const lines = kind() === "file" ? file : await tableToLines(file, terms);
    const fileId = await upload(file.name, lines);
    if (fileId === undefined) return undefined;
    uploaded = { madeOf, fileId };
  }
  return [{ file_id: uploaded.fileId, sla }];
}

function requestOf(given) {
  const tokens = given.get("tokens");
  return {
    model: given.get("model"),
    ...(given.get("system") ? { system: given.get("system") } : {}),
    ...(tokens ? { max_tokens: Number(tokens) } : {}),
  };
}

/** The browser reads the file as it sends it. */
async function upload(name, lines) {
  const body = new FormData();
  body.set("file", lines, name);
  const response = await ask("PUT", `v0/files/${encodeURIComponent(name)}`, { body, complainTo: problem });
  return response === undefined ? undefined : (await response.json()).file_id;
}

/** Of the sla that was quoted: the sums beside `slas` are those without one. */
function showQuote(found, sla) {
  const own = found.slas.find(({ sla_minutes: minutes }) => minutes === sla);
  const isPriced = found.items === 0 || found.unpriced_items < found.items;
  const { expected_seconds: seconds, early_seconds: early, late_seconds: late } = own.finish;
  const band =
    early === null || late === null ? "" : ` (${duration(early * 1_000)} to ${duration(late * 1_000)})`;
  const facts = [
    ["Done", seconds === null ? "not known" : `in ${duration(seconds * 1_000)}${band}`],
    ["Items", count(found.items)],
    [
      "Billed",
      isPriced
        ? `${usd(own.billed_usd)} expected, ${usd(own.billed_usd_low)} to ${usd(own.billed_usd_high)}`
        : "not known",
    ],
    ["Charged", isPriced ? `${usd(own.usd)}, price factor ${own.price_factor.toFixed(2)}` : "not known"],
    ["Based on", found.basis],
  ];
  const warnings = [
    own.is_feasible === false
      ? `Not expected to be done in ${duration(sla * 60_000)}; the earliest sla is ${found.earliest_sla === null ? "longer than 30 days" : duration(found.earliest_sla * 60_000)}.`
      : "",
    found.unpriced_models.length > 0
      ? `No price is known for ${found.unpriced_models.join(", ")}: the sums are without ${compact(found.unpriced_items)} of the ${compact(found.items)} items.`
      : "",
    found.rejected_lines > 0
      ? `${count(found.rejected_lines)} of the lines would fail before anything is sent. Line ${found.first_fault?.line}: ${found.first_fault?.message}`
      : "",
  ].filter(Boolean);
  byId("quote").replaceChildren(
    make(
      "dl",
      "facts",
      ...facts.map(([name, text]) => make("div", "fact", make("dt", "", name), make("dd", "", text))),
    ),
    ...warnings.map((text) => make("p", "warn-text", text)),
  );
}

/** Also where the page is not from a secure origin, which has no randomUUID. */
function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

function problem(text) {
  setText(byId("submit-problem"), text);
}
