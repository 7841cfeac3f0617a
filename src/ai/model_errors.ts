/**
 * What a call of a model of the AI SDK throws, as a provider function throws it (src/providers/function.ts).
 *
 *   an APICallError with a status      as an HTTP answer of that status; `retry-after` of its headers is obeyed
 *   any other that is not retryable,
 *   or that the call caused itself     permanent: the item's own fault
 *   anything else                      ambiguous: it may have been answered and billed
 */
import { isObject } from "../work/json.ts";
import { isSdkError } from "./call_error.ts";

/** Errors of the AI SDK that the same call gets each time. */
const PERMANENT = [
  "AI_UnsupportedFunctionalityError",
  "AI_InvalidPromptError",
  "AI_InvalidArgumentError",
  "AI_NoSuchModelError",
  "AI_LoadAPIKeyError",
  "AI_LoadSettingError",
] as const;

/** An error with the marks that a provider function's have. */
export function marked(error: unknown): unknown {
  if (isSdkError(error, "AI_APICallError")) {
    const { message, statusCode, responseHeaders, isRetryable, data } = error as {
      readonly message: string;
      readonly data?: unknown;
      readonly statusCode?: number;
      readonly responseHeaders?: Readonly<Record<string, string>>;
      readonly isRetryable?: boolean;
    };
    if (statusCode !== undefined && statusCode >= 400)
      return Object.assign(new Error(message, { cause: error }), {
        status: statusCode,
        headers: responseHeaders,
        ...codesIn(data),
      });
    return isRetryable === false && statusCode === undefined ? permanent(message, error) : error;
  }
  const name = PERMANENT.find((each) => isSdkError(error, each));
  return name === undefined ? error : permanent(String((error as Error).message), error);
}

/** The provider's own code and type, as most servers have them. */
function codesIn(data: unknown): { readonly code?: unknown; readonly type?: unknown } {
  const said = isObject(data) ? data["error"] : undefined;
  return isObject(said) ? { code: said["code"], type: said["type"] } : {};
}

/** What perigee does not repeat. */
export function permanent(message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, cause === undefined ? {} : { cause }), { retryable: false });
}

const VERSIONS: ReadonlySet<string> = new Set(["v2", "v3", "v4"]);

/** Throws for a model of a version that is not known. */
export function checkVersion({
  modelId,
  specificationVersion: version,
}: {
  readonly modelId: string;
  readonly specificationVersion: string;
}): void {
  if (!VERSIONS.has(version))
    throw permanent(
      `the model "${modelId}" has version ${JSON.stringify(version)} of the specification; expected "v2", "v3" or "v4"`,
    );
}
