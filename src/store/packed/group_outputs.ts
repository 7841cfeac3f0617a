/**
 * Outputs that arrived with the requests of a group: written before its transaction, synced beside it.
 *
 * A request whose output cannot be written has no part in the transaction; one whose output cannot be synced is refused.
 */
import { fdatasync, writeSync } from "node:fs";
import type { PerigeeError } from "../../errors.ts";
import { outputError } from "../outputs.ts";
import { type GroupedRequest, refusal } from "./grouped_requests.ts";
import type { PackedOutputs, StoreReply } from "./requests.ts";

/** Open files by their number. */
export interface OutputFiles {
  /** Writes all of `bytes` at `position`, or throws the system's error. */
  write(descriptor: number, bytes: Uint8Array, position: number): void;
  /** Resolves with the system's error when it failed. */
  sync(descriptor: number): Promise<unknown>;
}

/** The outputs of one group. */
export class GroupOutputs {
  readonly #files: OutputFiles;
  readonly #refused = new Map<number, StoreReply>();
  readonly #syncs: Promise<void>[] = [];

  constructor(files: OutputFiles = systemFiles) {
    this.#files = files;
  }

  /** Writes all, and begins to sync them; returns the requests that remain. */
  write(group: readonly GroupedRequest[]): GroupedRequest[] {
    for (const request of group) {
      const { outputs } = request.kind === "append" || request.kind === "commitLog" ? request.packed : {};
      if (outputs === undefined) continue;
      const refuse = (error: PerigeeError): unknown =>
        this.#refused.set(request.id, refusal(request.id, error));
      const failure = this.#write(outputs);
      if (failure === undefined) this.#syncs.push(this.#sync(outputs, refuse));
      else refuse(failure);
    }
    return group.filter((request) => !this.#refused.has(request.id));
  }

  /** Once all are synced: one reply for each request of the group, those of what was answered among them. */
  async replies(group: readonly GroupedRequest[], answered: readonly StoreReply[]): Promise<StoreReply[]> {
    await Promise.all(this.#syncs);
    const replies = new Map(answered.map((reply) => [reply.id, reply]));
    return group.flatMap((request) => this.#refused.get(request.id) ?? replies.get(request.id) ?? []);
  }

  #write(outputs: PackedOutputs): PerigeeError | undefined {
    let start = 0;
    for (const [index, descriptor] of outputs.descriptors.entries()) {
      const end = start + (outputs.sizes[index] ?? 0);
      try {
        this.#files.write(descriptor, outputs.bytes.subarray(start, end), outputs.positions[index] ?? 0);
      } catch (error) {
        return outputError(outputs.taskIds[index] ?? "", "write", error);
      }
      start = end;
    }
    return undefined;
  }

  async #sync(outputs: PackedOutputs, refuse: (error: PerigeeError) => unknown): Promise<void> {
    const taskOf = new Map(outputs.descriptors.map((file, index) => [file, outputs.taskIds[index] ?? ""]));
    await Promise.all(
      [...taskOf].map(async ([descriptor, taskId]) => {
        const error = await this.#files.sync(descriptor);
        if (error !== undefined) refuse(outputError(taskId, "sync", error));
      }),
    );
  }
}

const systemFiles: OutputFiles = {
  write: (descriptor, bytes, position) => {
    for (let written = 0; written < bytes.byteLength; )
      written += writeSync(descriptor, bytes, written, bytes.byteLength - written, position + written);
  },
  sync: (descriptor) =>
    new Promise((resolve) => {
      fdatasync(descriptor, (error) => resolve(error ?? undefined));
    }),
};
