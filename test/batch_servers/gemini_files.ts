/** The files of the Gemini fake: uploaded in resumable steps, listed by pages, downloaded, deleted, gone after 48 h. */
import { Buffer } from "node:buffer";
import type { FakeAccount } from "./account.ts";
import { bytesReply, type FakeReply, isObject, jsonReply, objectOf } from "./fake.ts";
import { refuseGemini } from "./gemini_answers.ts";
import { idOf } from "./results.ts";

interface StoredFile {
  /** `files/<id>`. */
  readonly name: string;
  readonly displayName: string | undefined;
  readonly mimeType: string;
  readonly workspace: string;
  readonly createdMs: number;
  bytes(): Uint8Array;
}

interface Upload {
  readonly key: string;
  readonly displayName: string | undefined;
  readonly mimeType: string;
  readonly pieces: Uint8Array[];
}

export class GeminiFiles {
  readonly #account: FakeAccount;
  readonly #keptMs: number;
  readonly #files = new Map<string, StoredFile>();
  readonly #uploads = new Map<string, Upload>();
  #made = 0;

  constructor(account: FakeAccount, keptMs: number) {
    this.#account = account;
    this.#keptMs = keptMs;
  }

  get count(): number {
    return this.#files.size;
  }

  /** `start` answers where the bytes go. */
  start(key: string, body: Uint8Array, mimeType: string | undefined, origin: string): FakeReply {
    const file = objectOf(body)?.["file"];
    const { displayName, display_name, mimeType: stated } = isObject(file) ? file : {};
    this.#made += 1;
    const id = idOf("upload-", this.#account.behaviour.seed, this.#made);
    const name = displayName ?? display_name;
    this.#uploads.set(id, {
      key,
      displayName: typeof name === "string" ? name : undefined,
      mimeType: mimeType ?? String(stated ?? "application/octet-stream"),
      pieces: [],
    });
    const url = `${origin}/upload/v1beta/files?upload_id=${id}&upload_protocol=resumable`;
    return jsonReply(200, {}, { "x-goog-upload-url": url, "x-goog-upload-status": "active" });
  }

  /** `upload` adds bytes, `finalize` makes the file. */
  upload(id: string, command: string, offset: string | undefined, body: Uint8Array): FakeReply {
    const upload = this.#uploads.get(id);
    if (upload === undefined) return refuseGemini(404, "not_found", `no upload ${id}`);
    const length = upload.pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (Number(offset ?? 0) !== length)
      return refuseGemini(400, "invalid_request_error", `offset must be ${length}`);
    upload.pieces.push(Uint8Array.from(body));
    if (!command.includes("finalize")) return jsonReply(200, {}, { "x-goog-upload-status": "active" });
    const bytes = Buffer.concat(upload.pieces);
    const { bytesMax, workspaceOf } = this.#account.behaviour;
    if (bytes.length > bytesMax) return refuseGemini(400, "file_too_large", `at most ${bytesMax} bytes`);
    this.#uploads.delete(id);
    const { displayName, mimeType, key } = upload;
    const workspace = workspaceOf(key);
    const file = this.#add({
      displayName,
      mimeType,
      workspace,
      createdMs: this.#account.nowMs,
      bytes: () => bytes,
    });
    return jsonReply(200, { file: this.#shown(file) }, { "x-goog-upload-status": "final" });
  }

  /** A file that a batch made when it ended. */
  make(workspace: string, createdMs: number, make: () => Uint8Array): string {
    let made: Uint8Array | undefined;
    const bytes = (): Uint8Array => {
      made ??= make();
      return made;
    };
    const mimeType = "application/jsonl";
    return this.#add({ displayName: undefined, mimeType, workspace, createdMs, bytes }).name;
  }

  find(name: string, key: string): StoredFile | undefined {
    const file = this.#files.get(name);
    if (file === undefined || file.workspace !== this.#account.behaviour.workspaceOf(key)) return undefined;
    return this.#account.nowMs < file.createdMs + this.#keptMs ? file : undefined;
  }

  get(name: string, key: string): FakeReply {
    const file = this.find(name, key);
    return file === undefined ? this.#missing(name) : jsonReply(200, this.#shown(file));
  }

  download(name: string, key: string): FakeReply {
    const file = this.find(name, key);
    return file === undefined ? this.#missing(name) : bytesReply(file.bytes());
  }

  delete(name: string, key: string): FakeReply {
    if (this.find(name, key) === undefined) return this.#missing(name);
    this.#files.delete(name);
    return jsonReply(200, {});
  }

  list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const files = [...this.#files.keys()].flatMap((name) => this.find(name, key) ?? []).reverse();
    const { page, next } = tokenPageOf(files, query, this.#account.behaviour.pageMax);
    return jsonReply(200, { files: page.map((file) => this.#shown(file)), ...next });
  }

  #add(file: Omit<StoredFile, "name">): StoredFile {
    this.#made += 1;
    const name = idOf("files/", this.#account.behaviour.seed, this.#made);
    const stored = { name, ...file };
    this.#files.set(name, stored);
    return stored;
  }

  #missing(name: string): FakeReply {
    return refuseGemini(403, "not_found", `no permission to access the File ${name}, or it may not exist`);
  }

  #shown({ name, displayName, mimeType, createdMs, bytes }: StoredFile): object {
    return {
      name,
      displayName,
      mimeType,
      sizeBytes: String(bytes().length),
      createTime: new Date(createdMs).toISOString(),
      expirationTime: new Date(createdMs + this.#keptMs).toISOString(),
      uri: `https://generativelanguage.googleapis.com/v1beta/${name}`,
      state: "ACTIVE",
    };
  }
}

/** A page by `pageSize` and `pageToken`. */
export function tokenPageOf<T>(
  all: readonly T[],
  query: Readonly<Record<string, string>>,
  pageMax: number,
): { readonly page: readonly T[]; readonly next: { readonly nextPageToken?: string } } {
  const from = Number(query["pageToken"] ?? 0);
  const size = Math.min(pageMax, Number(query["pageSize"] ?? 50));
  const page = all.slice(from, from + size);
  return { page, next: from + size < all.length ? { nextPageToken: String(from + size) } : {} };
}
