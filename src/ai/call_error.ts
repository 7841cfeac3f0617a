/**
 * Errors that the AI SDK knows by their markers, without its classes.
 *
 * The SDK repeats a call whose error is an `APICallError` that is retryable. perigee has repeated the request itself, as often as limits,
 * deadline and cap allow, so no error here is: `maxRetries` of the SDK multiplies nothing.
 *
 * Source: `AISDKError.hasMarker`, `APICallError.isInstance` and `NoSuchModelError.isInstance` of @ai-sdk/provider 3.0.19: symbols of the global
 * registry, `vercel.ai.error` and `vercel.ai.error.<name>`.
 */

const MARKER = "vercel.ai.error";

/** Of a call. */
export interface ModelCallErrorFacts {
  /** perigee's code, such as `filtered`, `expired` or `budget_exceeded`. */
  readonly code: string;
  /** HTTP status of the provider's last answer, or of the service's; undefined without one. */
  readonly statusCode?: number | undefined;
  /** The address of the service; empty with an engine. */
  readonly url?: string;
  /** The error of the item, or of the service. */
  readonly data?: unknown;
  /** Its task, where it has one. */
  readonly taskId?: string;
}

/** A call that ended without an answer. `APICallError.isInstance` of the AI SDK holds for it. */
export class ModelCallError extends Error {
  readonly code: string;
  readonly statusCode: number | undefined;
  readonly url: string;
  readonly requestBodyValues: unknown = {};
  readonly isRetryable = false;
  readonly data: unknown;
  readonly taskId: string | undefined;

  constructor(message: string, facts: ModelCallErrorFacts, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "AI_APICallError";
    this.code = facts.code;
    this.statusCode = facts.statusCode;
    this.url = facts.url ?? "";
    this.data = facts.data;
    this.taskId = facts.taskId;
    mark(this);
  }
}

/** A kind of model that perigee does not have. `NoSuchModelError.isInstance` of the AI SDK holds for it. */
export class UnknownKindError extends Error {
  readonly modelId: string;
  readonly modelType: string;

  constructor(modelId: string, modelType: string) {
    super(
      `perigee has no ${modelType}s for the AI SDK: "${modelId}" can be used with languageModel and embeddingModel`,
    );
    this.name = "AI_NoSuchModelError";
    this.modelId = modelId;
    this.modelType = modelType;
    mark(this);
  }
}

/** Whether it is an error of the AI SDK with this name, of whichever copy of its package. */
export function isSdkError(error: unknown, name: string): boolean {
  if (typeof error !== "object" || error === null) return false;
  return (error as Readonly<Record<symbol, unknown>>)[Symbol.for(`${MARKER}.${name}`)] === true;
}

function mark(error: Error): void {
  for (const marker of [MARKER, `${MARKER}.${error.name}`])
    Object.defineProperty(error, Symbol.for(marker), { value: true });
}
