/**
 * The door of zod: schemas of what comes from outside. Loaded only where there is something to check.
 *
 * To leave: any library with Standard Schema and a JSON Schema of it; `service/` uses the latter for its description.
 */
export { z } from "zod";
