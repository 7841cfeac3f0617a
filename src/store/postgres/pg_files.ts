/**
 * The files of one partition in PostgreSQL. The caller owns the transaction.
 *
 * Bytes are stored uncompressed (`STORAGE EXTERNAL`), so that the server reads a range without the rest.
 */
import {
  type FileChange,
  type FileRow,
  type FilesOwner,
  REMOVED_FOLDER,
  SEGMENT_PAGE,
  type SegmentRow,
  type WantedBytes,
  type WriteChange,
} from "../file_rows.ts";
import type { FilesAsked } from "../packed/requests.ts";
import type { PgQuery, PgResult, PgValue } from "./pg_session.ts";

/** Names compare by their bytes, so that those of a folder are a range of the index. */
export const FILES_SCHEMA: string = `
  CREATE TABLE perigee_files (
    part integer NOT NULL,
    path text COLLATE "C" NOT NULL,
    id bigint NOT NULL,
    size bigint NOT NULL DEFAULT 0,
    modified_ms bigint NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (part, path),
    UNIQUE (part, id)
  );
  CREATE TABLE perigee_segments (
    part integer NOT NULL,
    file bigint NOT NULL,
    sequence bigint NOT NULL,
    start bigint NOT NULL,
    shown bigint NOT NULL,
    stored bigint NOT NULL,
    sums bytea NOT NULL,
    object text COLLATE "C",
    bytes bytea,
    PRIMARY KEY (part, file, sequence)
  );
  ALTER TABLE perigee_segments ALTER COLUMN bytes SET STORAGE EXTERNAL;
  CREATE INDEX perigee_segments_of_object ON perigee_segments (object) WHERE object IS NOT NULL;
  CREATE TABLE perigee_objects (
    name text COLLATE "C" NOT NULL,
    chunk integer NOT NULL,
    size bigint NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp(),
    bytes bytea NOT NULL,
    PRIMARY KEY (name, chunk)
  );
  ALTER TABLE perigee_objects ALTER COLUMN bytes SET STORAGE EXTERNAL;
  `;

/** `<folder>0` sorts directly after every path that begins with `<folder>/`. */
const AFTER_SLASH = "0";

export class PgFiles {
  readonly #query: PgQuery;
  readonly #part: number;
  readonly #epoch: () => number;

  /** `epoch`: returns that of the owner; a reader passes one that returns 0. */
  constructor(query: PgQuery, part: number, epoch: () => number) {
    this.#query = query;
    this.#part = part;
    this.#epoch = epoch;
  }

  async change(changes: readonly FileChange[]): Promise<void> {
    for (const change of changes) await this.#change(change);
  }

  /** Does a read of `FileRows`. */
  answer(asked: FilesAsked): unknown {
    switch (asked.what) {
      case "owner":
        return { part: this.#part, epoch: this.#epoch() } satisfies FilesOwner;
      case "file":
        return this.file(asked.path);
      case "segments":
        return this.segments(asked.file, asked.after);
      case "bytes":
        return this.bytes(asked.file, asked.wanted);
      case "names":
        return this.names(asked.folder);
      case "named":
        return this.named(asked.objects);
    }
  }

  async file(path: string): Promise<FileRow | undefined> {
    const { rows } = await this.#run(
      `SELECT id, size AS "sizeBytes", modified_ms AS "modifiedMs", version FROM perigee_files WHERE part = $1 AND path = $2`,
      path,
    );
    return (rows as readonly FileRow[])[0]; // as selected
  }

  async segments(file: number, after: number): Promise<readonly SegmentRow[]> {
    const { rows } = await this.#run(
      `SELECT sequence, start, shown AS "shownBytes", stored AS "storedBytes", sums, object FROM perigee_segments
       WHERE part = $1 AND file = $2 AND sequence > $3 ORDER BY sequence LIMIT ${SEGMENT_PAGE}`,
      file,
      after,
    );
    return (rows as readonly (SegmentRow & { readonly object: string | null })[]).map((row) => ({
      ...row,
      object: row.object ?? undefined,
    }));
  }

  async bytes(file: number, wanted: readonly WantedBytes[]): Promise<readonly (Uint8Array | undefined)[]> {
    const { rows } = await this.#run(
      `SELECT w.place::integer AS place, substr(s.bytes, w.skipped + 1, w.length) AS bytes
       FROM unnest($3::bigint[], $4::integer[], $5::integer[]) WITH ORDINALITY AS w (sequence, skipped, length, place)
       JOIN perigee_segments AS s ON s.part = $1 AND s.file = $2 AND s.sequence = w.sequence
       WHERE s.bytes IS NOT NULL`,
      file,
      wanted.map(({ sequence }) => sequence),
      wanted.map(({ offset }) => offset),
      wanted.map(({ lengthBytes }) => lengthBytes),
    );
    const found = new Map(
      (rows as readonly { readonly place: number; readonly bytes: Uint8Array }[]).map((row) => [
        row.place,
        row.bytes,
      ]),
    ); // as selected
    return wanted.map((_, index) => found.get(index + 1));
  }

  async names(folder: string): Promise<readonly string[]> {
    const start = folder === "" ? "" : `${folder}/`;
    const { rows } = await this.#run(
      `SELECT substr(path, length($2) + 1) AS name FROM perigee_files
       WHERE part = $1 AND path >= $2 AND ($3 = '' OR path < $3) AND strpos(substr(path, length($2) + 1), '/') = 0`,
      start,
      folder === "" ? "" : `${folder}${AFTER_SLASH}`,
    );
    return (rows as readonly { readonly name: string }[]).map(({ name }) => name); // as selected
  }

  async named(objects: readonly string[]): Promise<readonly string[]> {
    const { rows } = await this.#query(
      "SELECT DISTINCT object FROM perigee_segments WHERE object = ANY ($1::text[])",
      objects,
    );
    return (rows as readonly { readonly object: string }[]).map(({ object }) => object); // as selected
  }

  async #change(change: FileChange): Promise<void> {
    switch (change.kind) {
      case "make":
        await this.#run(
          "INSERT INTO perigee_files (part, path, id, modified_ms) VALUES ($1, $2, $3, $4)",
          change.path,
          change.id,
          change.modifiedMs,
        );
        return;
      case "rename":
        await this.#run(
          "UPDATE perigee_files SET path = $3, version = version + 1 WHERE part = $1 AND id = $2",
          change.id,
          change.path,
        );
        return;
      case "remove":
        await this.#run("DELETE FROM perigee_files WHERE part = $1 AND id = $2", change.id);
        await this.#run("DELETE FROM perigee_segments WHERE part = $1 AND file = $2", change.id);
        return;
      case "write":
        return this.#write(change);
    }
  }

  async #write({ id, sizeBytes, modifiedMs, cutTo, removed, added, bytes }: WriteChange): Promise<void> {
    if (cutTo !== undefined) {
      await this.#run(
        "DELETE FROM perigee_segments WHERE part = $1 AND file = $2 AND start >= $3",
        id,
        cutTo,
      );
      await this.#run(
        `UPDATE perigee_segments SET shown = $3 - start
         WHERE part = $1 AND file = $2 AND start + shown > $3`,
        id,
        cutTo,
      );
    }
    if (removed.length > 0)
      await this.#run(
        "DELETE FROM perigee_segments WHERE part = $1 AND file = $2 AND sequence = ANY ($3::bigint[])",
        id,
        removed,
      );
    let end = 0;
    const ends = added.map(({ object, storedBytes }) => {
      if (object === undefined) end += storedBytes;
      return end;
    });
    // One statement, because a round trip costs more than the work: an output is synced hundreds of times a second.
    await this.#run(
      `WITH added AS (
         INSERT INTO perigee_segments (part, file, sequence, start, shown, stored, sums, object, bytes)
         SELECT $1, $2, a.sequence, a.start, a.stored, a.stored, decode(a.sums, 'hex'), nullif(a.object, ''),
           CASE WHEN a.object = '' THEN substr($10::bytea, (a.ends - a.stored + 1)::integer, a.stored::integer) END
         FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $11::bigint[])
           AS a (sequence, start, stored, sums, object, ends))
       UPDATE perigee_files SET size = $3, modified_ms = $4, version = version + 1 WHERE part = $1 AND id = $2`,
      id,
      sizeBytes,
      modifiedMs,
      added.map(({ sequence }) => sequence),
      added.map(({ start }) => start),
      added.map(({ storedBytes }) => storedBytes),
      added.map(({ sums }) => Buffer.from(sums).toString("hex")),
      added.map(({ object }) => object ?? ""),
      bytes,
      ends,
    );
  }

  #run(sql: string, ...values: readonly PgValue[]): Promise<PgResult> {
    return this.#query(sql, this.#part, ...values);
  }
}

/** Removes files that were removed while they were open, and whose owner died before it closed them. */
export const REAP_REMOVED: string = `
  WITH reaped AS (DELETE FROM perigee_files WHERE part = $1 AND path >= '${REMOVED_FOLDER}' AND path < '${REMOVED_FOLDER.slice(0, -1)}${AFTER_SLASH}'
    RETURNING id)
  DELETE FROM perigee_segments WHERE part = $1 AND file IN (SELECT id FROM reaped)`;
