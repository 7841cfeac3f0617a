/**
 * The notes of one execution: read when an attempt begins, written whole with each `set`.
 *
 * Values of secrets are taken out, so that they stand nowhere on the disk but encrypted. Limit: 64 KiB of JSON.
 */
import { PerigeeError } from "../../errors.ts";
import type { RecordStore } from "../../store/records.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import { copyJson } from "../sdk/json_copy.ts";
import type { Notes } from "../sdk/satellite.ts";
import type { Redactor } from "../secrets/redaction.ts";
import { EXECUTION_NOTES, type ExecutionFacts } from "./execution_record.ts";

const NOTES_BYTES_MAX = 64 << 10;

/** Whose notes, and where they are kept. */
export interface NotesParts {
  readonly store: RecordStore;
  readonly facts: Pick<ExecutionFacts, "id" | "project" | "createdWallMs">;
  readonly redaction: Redactor;
  /** No earlier attempt can have noted anything. */
  readonly isFirst: boolean;
  /** Throws when the attempt is over: what it does from then on is nobody's. */
  readonly assertCurrent: () => void;
  /** Writes again and again while the disk is full. */
  readonly whenRoom: (write: () => Promise<void>) => Promise<void>;
}

/** What earlier attempts have noted. */
export async function openNotes(parts: NotesParts): Promise<Notes> {
  const { id, project } = parts.facts;
  if (parts.isFirst) return new StoredNotes(parts, []);
  const record = await parts.store.record(project, EXECUTION_NOTES, id);
  const text = record?.payload === undefined ? "{}" : new TextDecoder().decode(record.payload);
  return new StoredNotes(parts, Object.entries(JSON.parse(text) as JsonObject)); // written below
}

class StoredNotes implements Notes {
  readonly #parts: NotesParts;
  readonly #values: Map<string, Json>;

  constructor(parts: NotesParts, values: Iterable<[string, Json]>) {
    this.#parts = parts;
    this.#values = new Map(values);
  }

  get(name: string): Json | undefined {
    return this.#values.get(name);
  }

  async set(name: string, value: Json): Promise<void> {
    const { store, facts, redaction, assertCurrent, whenRoom } = this.#parts;
    assertCurrent();
    const copied = copyJson(value);
    if (!copied.ok)
      throw new PerigeeError("usage", `the note ${JSON.stringify(name)} is no JSON: ${copied.reason}`);
    const values = new Map(this.#values).set(name, redaction.redactJson(copied.value));
    const payload = new TextEncoder().encode(JSON.stringify(Object.fromEntries(values)));
    if (payload.byteLength > NOTES_BYTES_MAX)
      throw new PerigeeError("too_large", `the notes of an execution have at most ${NOTES_BYTES_MAX} bytes`);
    this.#values.set(name, redaction.redactJson(copied.value));
    const { id, project, createdWallMs } = facts;
    const record = {
      collection: EXECUTION_NOTES,
      id,
      project,
      parent: "",
      createdWallMs,
      body: "{}",
      payload,
    };
    await whenRoom(async () => {
      assertCurrent(); // it may have ended while there was no room, and its notes are removed with it
      await store.change([{ kind: "put", record }]);
    });
  }
}
