/**
 * What callers of the work log say of tasks and items.
 */
import type { EndedStatus, FieldsOf } from "./records.ts";

/** A task as it is accepted. */
export interface AcceptedWork {
  /** In use by no other task: look with `rows.loggedTask`, and accept in the same turn. */
  readonly id: string;
  readonly project: string;
  /** 0 to 255, its owner's. */
  readonly kind: number;
  /** What it belongs to, to list it by; absent: nothing. */
  readonly parent?: string | undefined;
  /** 0 to 4,294,967,294; absent: not counted yet, then `count` follows. */
  readonly items?: number | undefined;
  /** Unix time; absent: no deadline. */
  readonly deadlineMs?: number | undefined;
  readonly createdWallMs: number;
  /** JSON of its owner, without texts of users. */
  readonly body: string;
  /** Texts of users; absent: its requests are elsewhere. */
  readonly request?: Uint8Array | undefined;
}

/** An item that had ended, and how. */
export interface EndedItem {
  readonly item: number;
  readonly status: EndedStatus;
  /** What it took: its next end includes that. Absent: it is open as if it had never been tried. */
  readonly taken?: TakenBefore | undefined;
}

/** What the attempts of an item took before it was opened again. */
export type TakenBefore = Omit<FieldsOf<"attemptEnded">, "task" | "item" | "attempt" | "nextMs">;
