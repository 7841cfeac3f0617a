/** The files of a partition, asked of the store's thread. */
import type { FileChange, FileRow, FileRows, FilesOwner, SegmentRow, WantedBytes } from "../file_rows.ts";
import type { FilesAsked } from "./requests.ts";

/** Sends to the thread in the turn of the call; `moved` are buffers that move. */
export interface FilesThread {
  ask<T>(asked: FilesAsked): Promise<T>;
  change(changes: readonly FileChange[], moved: readonly ArrayBuffer[]): Promise<void>;
}

export class ThreadFiles implements FileRows {
  readonly #thread: FilesThread;

  constructor(thread: FilesThread) {
    this.#thread = thread;
  }

  owner(): Promise<FilesOwner> {
    return this.#thread.ask({ what: "owner" });
  }

  change(changes: readonly FileChange[]): Promise<void> {
    const moved = changes.flatMap((change) =>
      change.kind === "write" && change.bytes.byteLength > 0 ? [change.bytes.buffer] : [],
    );
    return this.#thread.change(changes, moved);
  }

  file(path: string): Promise<FileRow | undefined> {
    return this.#thread.ask({ what: "file", path });
  }

  segments(file: number, after: number): Promise<readonly SegmentRow[]> {
    return this.#thread.ask({ what: "segments", file, after });
  }

  bytes(file: number, wanted: readonly WantedBytes[]): Promise<readonly (Uint8Array | undefined)[]> {
    return this.#thread.ask({ what: "bytes", file, wanted });
  }

  names(folder: string): Promise<readonly string[]> {
    return this.#thread.ask({ what: "names", folder });
  }

  named(objects: readonly string[]): Promise<readonly string[]> {
    return this.#thread.ask({ what: "named", objects });
  }
}
