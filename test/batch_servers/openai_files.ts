/** The files of the OpenAI fake: uploaded, listed by pages, fetched, deleted, gone when they expire. */
import type { FakeAccount } from "./account.ts";
import {
  addressOf,
  bytesReply,
  type FakeAnswer,
  type FakeReply,
  type FakeRequest,
  jsonReply,
} from "./fake.ts";
import { formOf } from "./multipart.ts";
import { idOf } from "./results.ts";

export interface StoredFile {
  readonly id: string;
  readonly workspace: string;
  readonly filename: string;
  readonly purpose: string;
  readonly createdMs: number;
  readonly expiresMs: number | undefined;
  /** Made when they are first read. */
  bytes(): Uint8Array;
  /** Whether its bytes have arrived, where they are stored after it was made. */
  isWhole?(): boolean;
}

export class OpenAiFiles {
  readonly #account: FakeAccount;
  readonly #refuse: (status: number, code: string, message: string) => FakeReply;
  /** What a purpose must be. */
  readonly #purpose: string;
  readonly #files = new Map<string, StoredFile>();
  #made = 0;

  constructor(
    account: FakeAccount,
    refuse: (status: number, code: string, message: string) => FakeReply,
    purpose = "batch",
  ) {
    this.#account = account;
    this.#refuse = refuse;
    this.#purpose = purpose;
  }

  get count(): number {
    return this.#files.size;
  }

  /** A call to `/v1/files` or below it. */
  handle(request: FakeRequest, key: string): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, headers, body } = request;
    const account = this.#account;
    const [, , , id = "", verb = ""] = path.split("/");
    // Together uploads to `/v1/files/upload`.
    if (method === "POST")
      return account.call("upload", key, () => this.upload(key, headers["content-type"], body));
    if (method === "DELETE") return account.call("delete", key, () => this.delete(id, key));
    if (id === "") return account.call("find_file", key, () => this.list(key, query));
    if (verb === "content") return account.call("results", key, () => this.content(id, key));
    return account.call("find_file", key, () => this.get(id, key));
  }

  upload(key: string, contentType: string | undefined, body: Uint8Array): FakeReply {
    const form = formOf(contentType, body);
    if (form?.file === undefined) return this.#refuse(400, "invalid_request_error", "a file is required");
    const { purpose = "" } = form.fields;
    if (purpose !== this.#purpose)
      return this.#refuse(400, "invalid_request_error", `purpose must be ${this.#purpose}`);
    const { bytesMax, workspaceOf } = this.#account.behaviour;
    const { filename, bytes } = form.file;
    if (bytes.length > bytesMax)
      return this.#refuse(
        413,
        "file_too_large",
        `a file may have ${bytesMax} bytes, this has ${bytes.length}`,
      );
    const livesMs = Number(form.fields["expires_after[seconds]"] ?? Number.NaN) * 1_000;
    const createdMs = this.#account.nowMs;
    const file = this.#add({
      workspace: workspaceOf(key),
      filename,
      purpose,
      createdMs,
      expiresMs: livesMs > 0 ? createdMs + livesMs : undefined,
      bytes: () => bytes,
    });
    return jsonReply(200, this.#shown(file));
  }

  /** A file that a batch made when it ended. */
  make(workspace: string, filename: string, createdMs: number, make: () => Uint8Array): StoredFile {
    let made: Uint8Array | undefined;
    const bytes = (): Uint8Array => {
      made ??= make();
      return made;
    };
    return this.#add({
      workspace,
      filename,
      purpose: "batch_output",
      createdMs,
      expiresMs: undefined,
      bytes,
    });
  }

  /** A file whose bytes are stored later, with the `put` that is returned. */
  reserve(key: string, filename: string): { readonly id: string; put(bytes: Uint8Array): void } {
    let stored: Uint8Array | undefined;
    const { id } = this.#add({
      workspace: this.#account.behaviour.workspaceOf(key),
      filename,
      purpose: this.#purpose,
      createdMs: this.#account.nowMs,
      expiresMs: undefined,
      bytes: () => stored ?? new Uint8Array(),
      isWhole: () => stored !== undefined,
    });
    return {
      id,
      put: (bytes) => {
        stored = bytes;
      },
    };
  }

  find(id: string, key: string): StoredFile | undefined {
    const file = this.#files.get(id);
    const isVisible = file !== undefined && file.workspace === this.#account.behaviour.workspaceOf(key);
    return isVisible && !this.#isGone(file) ? file : undefined;
  }

  get(id: string, key: string): FakeReply {
    const file = this.find(id, key);
    return file === undefined ? this.#missing(id) : jsonReply(200, this.#shown(file));
  }

  content(id: string, key: string): FakeReply {
    const file = this.find(id, key);
    return file === undefined ? this.#missing(id) : bytesReply(file.bytes());
  }

  delete(id: string, key: string): FakeReply {
    if (this.find(id, key) === undefined) return this.#missing(id);
    this.#files.delete(id);
    return jsonReply(200, { id, object: "file", deleted: true });
  }

  list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const { workspaceOf, pageMax } = this.#account.behaviour;
    const { purpose, after, order = "desc" } = query;
    const files = [...this.#files.values()].filter(
      (file) =>
        file.workspace === workspaceOf(key) &&
        (purpose === undefined || file.purpose === purpose) &&
        !this.#isGone(file),
    );
    if (order === "desc") files.reverse();
    const page = pageOf(files, after, Math.min(pageMax, Number(query["limit"] ?? 10_000)));
    return jsonReply(200, { ...page, data: page.data.map((file) => this.#shown(file)) });
  }

  #add(file: Omit<StoredFile, "id">): StoredFile {
    this.#made += 1;
    const id = idOf("file-", this.#account.behaviour.seed, this.#made);
    this.#files.set(id, { id, ...file });
    return { id, ...file };
  }

  #isGone({ createdMs, expiresMs = Number.POSITIVE_INFINITY }: StoredFile): boolean {
    const { nowMs, behaviour } = this.#account;
    return nowMs >= Math.min(expiresMs, createdMs + behaviour.keptMs);
  }

  #missing(id: string): FakeReply {
    return this.#refuse(404, "not_found", `No such File object: ${id}`);
  }

  #shown({ id, filename, purpose, createdMs, expiresMs, bytes, isWhole }: StoredFile): object {
    return {
      id,
      object: "file",
      // The length of a result is only known once it was made.
      bytes: purpose === "batch_output" ? 0 : bytes().length,
      created_at: Math.floor(createdMs / 1_000),
      ...(expiresMs === undefined ? {} : { expires_at: Math.floor(expiresMs / 1_000) }),
      filename,
      purpose,
      status: "processed",
      ...(isWhole === undefined ? {} : { Processed: isWhole() }),
    };
  }
}

/** A page after an id, in the shape of OpenAI's lists. */
export function pageOf<T extends { readonly id: string }>(
  all: readonly T[],
  after: string | undefined,
  limit: number,
): {
  readonly object: "list";
  readonly data: readonly T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
} {
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  const data = all.slice(from, from + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < all.length,
  };
}
