/**
 * What an `each` runs over: a list, the outputs of a fan-out, the lines of a file, or a listing of files.
 */
import { isList, isObject, type Json } from "../../work/json.ts";
import { atMost, fill, type LookUp, ReferenceFault } from "../declaration/fill.ts";
import { EVERY, follow, type Reference, referencesOf } from "../declaration/template.ts";
import { type Elements, openLineElements } from "./line_elements.ts";
import { elementOutput, type RunFacts, readValue, valueIn, valuesOf } from "./values.ts";

/** Of what is filled into a list that is written out; each element is an execution's for itself. */
const LIST_CHARS_MAX = 16 * 1024 * 1024;

/** With the current element. */
export function withElement(values: LookUp, item: Json, index: number): LookUp {
  return (reference) => {
    if (reference.root !== "each") return values(reference);
    const [field, ...steps] = reference.steps;
    return field === "index" ? index : valueIn(follow(item, steps, reference.text));
  };
}

/** Lists of a fan-out's outputs are not read before they are wanted. */
export async function elementsOf(facts: RunFacts, each: Json): Promise<Elements> {
  if (Array.isArray(each)) {
    const values = await valuesOf(facts, each, LIST_CHARS_MAX);
    return listed(fill(each, "/each", atMost(LIST_CHARS_MAX, values)).value as Json[]); // a list stays one
  }
  const [found] = referencesOf(each);
  if (found === undefined) throw new ReferenceFault("each must be a list");
  const { reference } = found;
  const fanOut = facts.stateOf(reference.root).fanOut;
  const [field, first, ...rest] = reference.steps;
  const isEvery = first === EVERY && !rest.includes(EVERY);
  if (field === "output" && fanOut !== undefined && (first === undefined || isEvery)) {
    return {
      length: fanOut.total,
      item: (index) => elementOutput(facts, reference, index, rest),
    };
  }
  const value = await readValue(facts, reference);
  if (isList(value)) {
    await refuseBeginning(facts, reference);
    return listed(value);
  }
  const fileId = lineFileOf(value);
  if (fileId !== undefined)
    return openLineElements(facts.files, { project: facts.cluster.project, fileId, name: reference.text });
  if (isObject(value) && isList(value["files"])) return listed(value["files"]);
  throw new ReferenceFault(`${reference.text}: is not a list`);
}

/** A reference to a file means its lines; and so does the `list` of a listing, which may be longer than its `files`. */
function lineFileOf(value: Json): string | undefined {
  if (!isObject(value)) return undefined;
  const file = Object.hasOwn(value, "list") && isObject(value["list"]) ? value["list"] : value;
  const id = Object.hasOwn(file, "file_id") ? file["file_id"] : undefined;
  return typeof id === "string" ? id : undefined;
}

/** A listing that says it is not complete has only its first files in it: nothing is left out in silence. */
async function refuseBeginning(facts: RunFacts, { root, steps, text }: Reference): Promise<void> {
  if (steps.at(-1) !== "files") return;
  const whole = { root, steps: steps.slice(0, -1), text: text.replace(/\.files$/, "") };
  const listing = await readValue(facts, whole);
  if (isObject(listing) && listing["is_complete"] === false)
    throw new ReferenceFault(`${text}: these are only the first files; write each: \${{ ${whole.text} }}`);
}

function listed(items: readonly Json[]): Elements {
  return { length: items.length, item: async (index) => items[index] ?? null };
}
