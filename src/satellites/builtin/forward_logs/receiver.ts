/**
 * What a receiver of logs is to `forward-logs`: bounds of a batch, and one batch to one request or connection.
 */
import type { GuardedResponse } from "../../sdk/guarded_http.ts";
import type { SatelliteFailure } from "../../sdk/satellite_error.ts";
import type { Outgoing } from "../exchange/exchange.ts";
import type { LogEntry } from "./entry.ts";

/** Bounds of a batch; `bytes` counts entries as JSON before they are packed. */
export interface BatchBounds {
  readonly entries: number;
  readonly bytes: number;
  /** Of one message. */
  readonly messageBytes: number;
}

/** Entries to send, with an id each that stays over all attempts. */
export interface Numbered {
  readonly id: string;
  readonly entry: LogEntry;
}

/** What a receiver made of a batch that it answered with 2xx. Indexes are of the batch. */
export interface Verdict {
  /** To be sent again: the receiver had no room for them now. */
  readonly again: readonly number[];
  /** Refused for good; without an index where the receiver does not say which. */
  readonly rejected: readonly { readonly index?: number; readonly reason: string }[];
}

export const ALL_TAKEN: Verdict = { again: [], rejected: [] };

/** A receiver over HTTP: pure. */
export interface HttpLogReceiver {
  readonly bounds: BatchBounds;
  /** Of an answer, bytes that are read. Default 64 KiB. */
  readonly answerBytesMax?: number;
  encode(batch: readonly Numbered[]): Outgoing & { readonly body: string };
  /** What a 2xx says; undefined when that cannot be read. */
  read(response: GuardedResponse, entries: number): Verdict | undefined;
  /** The receiver's own code in an error. */
  reason?(response: GuardedResponse): unknown;
  /** Where its rules for statuses differ from those of `exchange.ts`. */
  failureOf?(status: number): SatelliteFailure | undefined;
}

/** RFC 7617. */
export function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

export const MIB: number = 1024 * 1024;
