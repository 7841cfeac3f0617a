/**
 * Who answers calls: an engine in this process, or a service.
 */
import type { LibraryObject, LibraryTask } from "../engine/library.ts";
import type { ChunkOptions } from "../engine/submissions/chunk_reader.ts";
import type { FailureCode } from "../errors.ts";
import type { Item } from "../work/item.ts";
import { ModelCallError } from "./call_error.ts";
import type { CallNames } from "./call_names.ts";

/** The objects of a call, one for each of its items in their order, all with an answer. */
export interface AnsweredItems {
  readonly taskId: string;
  readonly objects: readonly LibraryObject[];
}

/** Of one call. */
export interface AskTerms {
  readonly signal: AbortSignal | undefined;
  /** Its key, and the first words of its prompt; undefined without a key. */
  readonly keyed?: { readonly key: string; readonly words: string } | undefined;
  /** Called with each chunk of the answer in OpenAI's form, where it is streamed; what it returns is waited for. */
  readonly onChunk?: NonNullable<ChunkOptions["onChunk"]>;
}

/** Port. */
export interface Asks {
  /** Of the calls of this process to it. */
  readonly names: CallNames;
  /**
   * Asks once for each name, however often it is called, in this process or later ones. Rejects with the reason of the signal at
   * once when that aborts, and sends nothing more of it then; with a `ModelCallError` when an item ends without an answer. The items of a call
   * have one sla; what of them was answered stays so when the call is made again.
   */
  ask(items: readonly Item[], name: string, terms: AskTerms): Promise<AnsweredItems>;
}

/** The objects of a final task. Throws the error of the first one without an answer. */
export function answersIn({ taskId, objects }: LibraryTask): AnsweredItems {
  const index = objects.findIndex(({ status }) => status !== "completed");
  if (index < 0 && objects.length > 0) return { taskId, objects };
  const error = objects[index]?.error;
  if (error === undefined || error === null)
    throw new ModelCallError(`task ${taskId} ended without an answer`, { code: "internal_error", taskId });
  const { code, message, providerStatus } = error;
  const where = objects.length === 1 ? "" : `values[${index}]: `;
  throw new ModelCallError(`${where}${message}`, { code, statusCode: providerStatus, data: error, taskId });
}

/** The codes of the errors that a task has, each once: what is to run again of one that was found. */
export function errorCodesIn(objects: readonly LibraryObject[]): FailureCode[] {
  return [
    ...new Set(objects.flatMap(({ error }) => (error === undefined || error === null ? [] : [error.code]))),
  ];
}

/** Another call than an earlier one is made under its key. `earlier`: the task of that, where it is known. */
export function otherCall(
  { key, words }: NonNullable<AskTerms["keyed"]>,
  {
    code,
    statusCode,
    earlier,
  }: { readonly code: string; readonly statusCode?: number | undefined; readonly earlier?: string },
  cause: unknown,
): ModelCallError {
  const task = earlier === undefined ? "" : ` (task ${earlier})`;
  const free = earlier === undefined ? "" : `, or forget that task with engine.forget("${earlier}")`;
  return new ModelCallError(
    `the call "${words}" has the key ${JSON.stringify(key)}, under which another call was made before${task}; use another key${free}`,
    { code, statusCode, ...(earlier === undefined ? {} : { taskId: earlier }) },
    { cause },
  );
}

/** What changes a hold of a service, by its reason. All others pass. */
const SERVICE_ADVICE: Readonly<Record<string, string>> = {
  provider_missing:
    "configure the provider (providers in the service's configuration), or use a model that the service has",
  key_missing:
    "set the provider's key (its environment variable, or key in providers) and restart the service",
  key_changed: "set the provider's earlier key again and restart the service",
  authentication: "set a key that the provider accepts and restart the service",
  quota: "add credit to the provider's account",
  model_unavailable: "use another model, or have the provider allow this one",
  cap_reached: "raise the service's cap, or the one of the key's project",
  price_unknown: "state the model's price (prices in the service's configuration)",
};
const PASSING_ADVICE = "make the call again later, or give it an sla: then it waits";

/** Why a held object of a service is not waited for, and what to do. */
export function heldByService(taskId: string, object: LibraryObject): ModelCallError {
  const { reason = "unknown", provider } = object.held ?? {};
  const whose = provider === undefined ? "" : `, provider "${provider}"`;
  const advice = SERVICE_ADVICE[reason] ?? PASSING_ADVICE;
  return heldError(taskId, object, `the call is held by the service (${reason}${whose}): ${advice}`);
}

/** Why a held object is not waited for; `message` is that of the hold, if it is known. */
export function heldError(taskId: string, { held }: LibraryObject, message?: string): ModelCallError {
  const whose = held?.provider === undefined ? "" : ` (provider "${held.provider}")`;
  const reason = held?.reason ?? "unknown";
  return new ModelCallError(message ?? `the call is held: ${reason}${whose}`, {
    code: held?.code ?? reason,
    statusCode: held?.providerStatus,
    data: held,
    taskId,
  });
}
