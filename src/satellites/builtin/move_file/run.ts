/**
 * One attempt of `move-file`: a file of a store, or of the project's file store, to another place.
 *
 *   checked -> "copying" noted -> copied, read back and hashed -> "copied" noted -> checked again -> source deleted
 *
 * The source is deleted only when its copy was read back with the same size and SHA-256, and when it is still what was
 * copied. Every step may be repeated: after a crash, the notes say how far it was, and the file at the destination is
 * trusted only by its hash. Two names of one file are recognised, so that neither is deleted as the other's source.
 *
 * An execution without a source but with a destination (with the SHA-256 of the input, if set) is done: `already_moved`.
 */
import type { JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import {
  destinationExists,
  type ExternalFile,
  type ExternalStore,
  hashOf,
  shown,
  sourceChanged,
} from "../files/external_store.ts";
import { withStore } from "../files/open_store.ts";
import type { StoreOptions } from "../files/store_config.ts";
import type { MoveFileConfig } from "./config.ts";
import type { MoveFileInput } from "./input.ts";
import { type MoveSource, openMoveSource } from "./move_source.ts";

type Outcome = "moved" | "copied" | "skipped" | "already_moved";

type Call = SatelliteCall<MoveFileInput, MoveFileConfig>;

/** What is noted once a copy was read back. */
interface Copied {
  /** Version of the source. */
  readonly source: string;
  /** Version of the copy. */
  readonly there: string;
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Opens the stores of each call. */
export function runWith(options: StoreOptions): (call: Call) => Promise<JsonObject> {
  return (call) => {
    const { store, from } = call.config;
    return withStore(store, options, call, (to) => {
      const move = async (source: ExternalStore): Promise<JsonObject> =>
        new Move(call, await openMoveSource(call, source), to).run();
      return from === undefined ? move(to) : withStore(from, options, call, move);
    });
  };
}

class Move {
  readonly #call: Call;
  readonly #source: MoveSource;
  readonly #to: ExternalStore;
  /** Of the attempts before this one. */
  readonly #noted: Copied | undefined;
  readonly #path: string;

  constructor(call: Call, source: MoveSource, to: ExternalStore) {
    this.#call = call;
    this.#source = source;
    this.#to = to;
    this.#noted = (call.notes.get("copied") ?? undefined) as Copied | undefined; // written below
    const { destination } = call.input;
    this.#path =
      this.#noted?.path ?? (destination.endsWith("/") ? `${destination}${source.name}` : destination);
  }

  async run(): Promise<JsonObject> {
    const { signal, notes } = this.#call;
    const source = await this.#source.stat(signal);
    if (source === undefined) return this.#withoutSource();
    const there = await this.#to.stat(this.#path, signal);
    if (there !== undefined && this.#isSame(source, there))
      throw new SatelliteError(
        "permanent",
        "same_file",
        `source and destination are one file, ${shown(this.#path)}`,
      );
    const copied = await this.#copied(source, there);
    if (copied === undefined) return this.#skipped(there);
    if (this.#source.isMoved) {
      // What was appended to the source since it was read is not in a copy.
      if ((await this.#source.stat(signal))?.version !== source.version) {
        await notes.set("copied", null);
        throw sourceChanged(source.path);
      }
      await this.#source.remove(signal);
    }
    return this.#output(this.#source.isMoved ? "moved" : "copied", copied);
  }

  /** Missing: moved by an attempt before this one, or by an execution before it, or it never existed. */
  async #withoutSource(): Promise<JsonObject> {
    if (this.#noted !== undefined) return this.#output("moved", this.#noted);
    const { input, signal } = this.#call;
    const there = this.#source.isExternal ? await this.#to.stat(this.#path, signal) : undefined;
    const sha256 = there === undefined ? undefined : await hashOf(this.#to, there, signal);
    if (there === undefined || sha256 === undefined || (input.sha256 ?? sha256) !== sha256)
      throw new SatelliteError(
        "permanent",
        "not_found",
        `there is no file ${shown(this.#source.path)} to move`,
      );
    return this.#output("already_moved", { bytes: there.bytes, sha256 });
  }

  /** What was copied; undefined when another file is in the way and stays. */
  async #copied(source: ExternalFile, there: ExternalFile | undefined): Promise<Copied | undefined> {
    const { notes, input } = this.#call;
    const noted = this.#noted;
    // Both as they were when the copy was read back: only the deletion is left.
    if (noted !== undefined && noted.source === source.version && noted.there === there?.version)
      return noted;
    // An attempt of this execution began to copy, so that the file there may be its work.
    const mayBeOwn = notes.get("copying") === source.version;
    const own = there !== undefined && mayBeOwn ? await this.#equalHash(source, there) : undefined;
    if (there !== undefined && own === undefined && input.overwrite !== "replace") {
      if (input.overwrite === "skip") return undefined;
      throw destinationExists(this.#path);
    }
    await this.#checkBefore(source);
    await notes.set("copying", source.version);
    const { file, sha256 } =
      there !== undefined && own !== undefined ? { file: there, sha256: own } : await this.#copy(source);
    this.#checkHash(sha256);
    const copied = {
      source: source.version,
      there: file.version,
      path: this.#path,
      bytes: file.bytes,
      sha256,
    };
    await notes.set("copied", copied);
    return copied;
  }

  /** If a hash is set: nothing is written of another file. */
  async #checkBefore(source: ExternalFile): Promise<void> {
    if (this.#call.input.sha256 !== undefined)
      this.#checkHash(await this.#source.hash(source, this.#call.signal));
  }

  async #copy(source: ExternalFile): Promise<{ readonly file: ExternalFile; readonly sha256: string }> {
    const { executionId, input, signal } = this.#call;
    this.#call.progress(0, source.bytes);
    const written = await this.#to.write(
      {
        path: this.#path,
        chunks: this.#source.read(source, signal),
        bytes: source.bytes,
        mimeType: this.#source.mimeType,
        isReplacing: input.overwrite === "replace",
        attemptId: executionId,
      },
      signal,
    );
    this.#call.progress(source.bytes, source.bytes);
    return written;
  }

  #checkHash(sha256: string): void {
    const expected = this.#call.input.sha256 ?? this.#source.sha256;
    if (expected === undefined || expected === sha256) return;
    const message = `${shown(this.#source.path)} does not have the requested SHA-256`;
    throw new SatelliteError("permanent", "hash_mismatch", message);
  }

  async #equalHash(source: ExternalFile, there: ExternalFile): Promise<string | undefined> {
    if (there.bytes !== source.bytes) return undefined;
    const { signal } = this.#call;
    const sha256 = await this.#source.hash(source, signal);
    return (await hashOf(this.#to, there, signal)) === sha256 ? sha256 : undefined;
  }

  #isSame(source: ExternalFile, there: ExternalFile): boolean {
    const isOnePath = this.#source.store === this.#to && source.path === there.path;
    return isOnePath || (this.#source.isExternal && source.version === there.version);
  }

  async #skipped(there: ExternalFile | undefined): Promise<JsonObject> {
    if (there === undefined) throw sourceChanged(this.#path);
    const sha256 = await hashOf(this.#to, there, this.#call.signal);
    return this.#output("skipped", { bytes: there.bytes, sha256 });
  }

  #output(outcome: Outcome, { bytes, sha256 }: Pick<Copied, "bytes" | "sha256">): JsonObject {
    return { outcome, store: this.#to.name, path: this.#path, bytes, sha256 };
  }
}
