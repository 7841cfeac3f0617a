/**
 * What move-file moves: a file of a store, or one of the project's own.
 */
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { type ExternalFile, type ExternalStore, hashOf } from "../files/external_store.ts";
import { findFile, inFiles } from "../files/file_reference.ts";
import { mimeTypeOf } from "../files/mime_type.ts";

/** What is moved, with the same steps for both. */
export interface MoveSource {
  /** The store that it is in; undefined for the project's files. */
  readonly store: ExternalStore | undefined;
  readonly isExternal: boolean;
  readonly path: string;
  /** Last name of the path. */
  readonly name: string;
  readonly mimeType: string;
  /** Where it is known without reading. */
  readonly sha256: string | undefined;
  /** Whether it is deleted when its copy exists. */
  readonly isMoved: boolean;
  stat(signal: AbortSignal): Promise<ExternalFile | undefined>;
  read(file: ExternalFile, signal: AbortSignal): AsyncIterable<Uint8Array>;
  hash(file: ExternalFile, signal: AbortSignal): Promise<string>;
  remove(signal: AbortSignal): Promise<void>;
}

interface MoveInput {
  readonly source?: string | undefined;
  readonly file?: { readonly file_id: string } | undefined;
  readonly keep_source?: boolean | undefined;
}

type Call = Pick<SatelliteCall, "executionId" | "project" | "files"> & { readonly input: MoveInput };

/** Reads nothing yet: whether the file exists is known at its first use. */
export async function openMoveSource(call: Call, from: ExternalStore): Promise<MoveSource> {
  const { input } = call;
  return input.file === undefined
    ? ofStore(from, input.source ?? "", input.keep_source !== true)
    : ofProject(call, input.file.file_id, input.keep_source === false);
}

function ofStore(store: ExternalStore, path: string, isMoved: boolean): MoveSource {
  return {
    store,
    isExternal: true,
    path,
    name: path.split("/").at(-1) ?? "",
    mimeType: mimeTypeOf(path),
    sha256: undefined,
    isMoved,
    stat: (signal) => store.stat(path, signal),
    read: (file, signal) => store.read(file, signal),
    hash: (file, signal) => hashOf(store, file, signal),
    remove: (signal) => store.remove(path, signal),
  };
}

/** Files of projects never change, so that the id is the version. */
async function ofProject(call: Call, id: string, isMoved: boolean): Promise<MoveSource> {
  const { project, files } = call;
  const view = await findFile(call, id);
  return {
    store: undefined,
    isExternal: false,
    path: view?.name ?? id,
    name: view?.name ?? id,
    mimeType: view?.mimeType ?? mimeTypeOf(id),
    sha256: view?.sha256,
    isMoved,
    stat: async () => view && { path: view.name, bytes: view.bytes, version: view.id },
    read: () => files.read(project, id),
    hash: async () => view?.sha256 ?? "",
    remove: () => inFiles(files.remove(project, id)),
  };
}
