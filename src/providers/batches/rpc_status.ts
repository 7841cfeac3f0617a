/**
 * The codes of google.rpc.Status as HTTP statuses (google/rpc/code.proto, which names the mapping).
 */

/** The code that means that a request was cancelled. */
export const RPC_CANCELLED = 1;

interface RpcCode {
  readonly name: string;
  readonly status: number;
}

const RPC_CODES: readonly RpcCode[] = [
  { name: "OK", status: 200 },
  { name: "CANCELLED", status: 499 },
  { name: "UNKNOWN", status: 500 },
  { name: "INVALID_ARGUMENT", status: 400 },
  { name: "DEADLINE_EXCEEDED", status: 504 },
  { name: "NOT_FOUND", status: 404 },
  { name: "ALREADY_EXISTS", status: 409 },
  { name: "PERMISSION_DENIED", status: 403 },
  { name: "RESOURCE_EXHAUSTED", status: 429 },
  { name: "FAILED_PRECONDITION", status: 400 },
  { name: "ABORTED", status: 409 },
  { name: "OUT_OF_RANGE", status: 400 },
  { name: "UNIMPLEMENTED", status: 501 },
  { name: "INTERNAL", status: 500 },
  { name: "UNAVAILABLE", status: 503 },
  { name: "DATA_LOSS", status: 500 },
  { name: "UNAUTHENTICATED", status: 401 },
];

/**
 * The code of an error as a number from 0 to 16: it may be the number, the number as text, its name in any case, or an HTTP status;
 * undefined of anything else.
 */
export function rpcCodeOf(value: unknown): number | undefined {
  const text = typeof value === "number" || typeof value === "string" ? String(value).toUpperCase() : "";
  if (/^\d{1,2}$/.test(text)) return Number(text) < RPC_CODES.length ? Number(text) : undefined;
  const index = RPC_CODES.findIndex(
    ({ name }) => name === text || (text === "CANCELED" && name === "CANCELLED"),
  );
  return index < 0 ? undefined : index;
}

/** The HTTP status of an error's code, in whichever form; undefined if it has none. */
export function rpcHttpStatus(value: unknown): number | undefined {
  const code = rpcCodeOf(value);
  if (code !== undefined) return RPC_CODES[code]?.status;
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === "number" && Number.isInteger(status) && status >= 400 && status <= 599
    ? status
    : undefined;
}

/** The name of a code, as in the `status` of an error in an HTTP answer. */
export function rpcName(value: unknown): string | undefined {
  const code = rpcCodeOf(value);
  return code === undefined ? undefined : RPC_CODES[code]?.name;
}
