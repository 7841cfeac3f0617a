/** One handle of an open file of a partition: it checks the mode, and refuses calls after `close`. */
import type { DiskFile } from "../../disk.ts";

/** The file to which handles pass their calls. */
export interface HandledFile {
  readonly sizeBytes: number;
  read(into: Uint8Array, position: number): Promise<number>;
  write(bytes: Uint8Array, position: number): Promise<void>;
  truncate(sizeBytes: number): Promise<void>;
  flush(): Promise<void>;
}

export class FileHandle implements DiskFile {
  readonly #file: HandledFile;
  readonly #mode: "read" | "write";
  readonly #closed: () => Promise<void>;
  #isClosed = false;

  /** `closed` is called once, by the first `close`. */
  constructor(file: HandledFile, mode: "read" | "write", closed: () => Promise<void>) {
    this.#file = file;
    this.#mode = mode;
    this.#closed = closed;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    this.#assert("read");
    return this.#file.read(into, position);
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    this.#assert("write");
    return this.#file.write(bytes, position);
  }

  async sync(): Promise<void> {
    this.#assert("read");
    return this.#file.flush();
  }

  async truncate(sizeBytes: number): Promise<void> {
    this.#assert("write");
    return this.#file.truncate(sizeBytes);
  }

  async sizeBytes(): Promise<number> {
    this.#assert("read");
    return this.#file.sizeBytes;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#closed();
  }

  #assert(need: "read" | "write"): void {
    if (this.#isClosed) throw fileError("EBADF", "the file is closed");
    if (need === "write" && this.#mode === "read") throw fileError("EBADF", "the file is open for reading");
  }
}

/** An error in the form of the system's, such as `EBADF`. */
export function fileError(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}
