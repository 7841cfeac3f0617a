/**
 * JSON as TypeScript sees it.
 */

/** Any value of JSON. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

/** An object of JSON. Members may be called `__proto__`: read own ones only. */
export interface JsonObject {
  readonly [name: string]: Json;
}
