/**
 * What the S3 SDK rejects with. Texts and headers of the store are never passed on: they may quote what was asked.
 */

/** Of the answer; undefined without one. */
export function statusOf(error: unknown): number | undefined {
  const status = propertyOf(propertyOf(error, "$metadata"), "httpStatusCode");
  return typeof status === "number" ? status : undefined;
}

/** Such as `NoSuchBucket`; nothing that could be a text. */
export function codeOf(error: unknown): string {
  const name = propertyOf(error, "name");
  return typeof name === "string" && /^\w{1,64}$/.test(name) ? name : "Error";
}

/** Whether the connection failed, by the system or the SDK. */
export function isConnectionLost(error: unknown): boolean {
  return typeof propertyOf(error, "code") === "string" || propertyOf(error, "name") === "TimeoutError";
}

export function propertyOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
