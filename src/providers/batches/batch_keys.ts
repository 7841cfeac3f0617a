/**
 * Keys in what a batch wire says: taken out of the words of its failures, faults and unfinished results, as key_text.ts does it for
 * realtime. Answers of models pass unchanged; the codec that decodes them takes out keys itself.
 */
import { hidingOf } from "../key_text.ts";
import type {
  BatchFailure,
  BatchPage,
  BatchResult,
  BatchWire,
  RemoteBatch,
  RemoteWire,
  UploadStep,
} from "./batch_wire.ts";

type Hiding = (text: string) => string;

/** The wire, saying no key of its settings. */
export function keepingBatchKeys(wire: BatchWire): BatchWire;
export function keepingBatchKeys(wire: RemoteWire): RemoteWire;
export function keepingBatchKeys(wire: RemoteWire): RemoteWire {
  const hidden = hidingOf(wire.settings);
  if (hidden === undefined) return wire;
  const { findFile, readAdded, readPage } = wire;
  return {
    ...wire,
    upload: (payload) => {
      const step = wire.upload(payload);
      return step === undefined ? undefined : stepWithout(step, hidden);
    },
    ...(findFile === undefined
      ? {}
      : {
          findFile: (payload) => {
            const { request, read } = findFile(payload);
            return { request, read: (answer) => failureWithout(read(answer), hidden) };
          },
        }),
    read: (...answered) => {
      const read = failureWithout(wire.read(...answered), hidden);
      return read.ok ? { ...read, batch: batchWithout(read.batch, hidden) } : read;
    },
    ...(readAdded === undefined ? {} : { readAdded: (answer) => failureWithout(readAdded(answer), hidden) }),
    ...(readPage === undefined
      ? {}
      : {
          readPage: (...answered: Parameters<BatchWire["readPage"]>): BatchPage | BatchFailure => {
            const page = failureWithout(readPage(...answered), hidden);
            return page.ok
              ? { ...page, batches: page.batches.map((batch) => batchWithout(batch, hidden)) }
              : page;
          },
        }),
    result: (element) => resultWithout(wire.result(element), hidden),
  };
}

function stepWithout({ request, read }: UploadStep, hidden: Hiding): UploadStep {
  return {
    request,
    read: (answer) => {
      const result = failureWithout(read(answer), hidden);
      return "next" in result ? { ...result, next: stepWithout(result.next, hidden) } : result;
    },
  };
}

function failureWithout<T extends { readonly ok: true }>(
  read: T | BatchFailure,
  hidden: Hiding,
): T | BatchFailure {
  return read.ok ? read : { ...read, message: hidden(read.message) };
}

function batchWithout(batch: RemoteBatch, hidden: Hiding): RemoteBatch {
  if (batch.faults.length === 0) return batch;
  const faults = batch.faults.map((fault) => ({
    ...fault,
    code: hidden(fault.code),
    message: hidden(fault.message),
  }));
  return { ...batch, faults };
}

/** Hot: an answer is not copied. */
function resultWithout(result: BatchResult, hidden: Hiding): BatchResult {
  if (result.is !== "unfinished") return result;
  return { ...result, code: hidden(result.code), message: hidden(result.message) };
}
