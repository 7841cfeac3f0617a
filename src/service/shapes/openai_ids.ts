/**
 * Ids as OpenAI's clients know them: `file-` or `batch_` and our UUID without dashes. Nothing else is an id here.
 */
import { PerigeeError } from "../../errors.ts";

const FILE = /^file-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;
const BATCH = /^batch_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

/** `file-` and 32 hexadecimal digits. */
export function toFileId(id: string): string {
  return `file-${id.replaceAll("-", "")}`;
}

/** `batch_` and 32 hexadecimal digits. */
export function toBatchId(id: string): string {
  return `batch_${id.replaceAll("-", "")}`;
}

/** Our id; throws `not_found` for any other form. */
export function fromFileId(given: string): string {
  return fromId(FILE, given, "file");
}

/** Our id of a file that is named in either form; what has neither stays as it is, and is found nowhere. */
export function ownFileId(given: string): string {
  return FILE.exec(given)?.slice(1).join("-") ?? given;
}

/** Our id; throws `not_found` for any other form. */
export function fromBatchId(given: string): string {
  return fromId(BATCH, given, "batch");
}

function fromId(form: RegExp, given: string, what: string): string {
  const parts = form.exec(given);
  if (parts === null) throw new PerigeeError("not_found", `there is no ${what} with this id`);
  return parts.slice(1).join("-");
}
