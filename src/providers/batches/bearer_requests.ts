/**
 * Requests to a provider that takes its key as a bearer token, as data: JSON, and an upload whose file is the lines of a batch.
 *
 * The upload is multipart/form-data (RFC 7578), so the lines are streamed between two texts. Its boundary needs no search for one that
 * the lines do not hold: a delimiter begins a line of its own, and every line of a batch begins with `{`.
 */
import { wireAddress } from "../address.ts";
import type { ProviderSettings } from "../provider.ts";
import type { BatchRequest } from "./batch_wire.ts";

type Query = Readonly<Record<string, string>>;

/** Makes requests below the base URL; paths begin with `/`, and ids in them are escaped. */
export interface BearerRequests {
  get(path: string, query?: Query): BatchRequest;
  /** The content of a file, whatever it holds. */
  content(path: string): BatchRequest;
  /** Without a body if none is given. */
  post(path: string, body?: object, query?: Query): BatchRequest;
  remove(path: string): BatchRequest;
  /** `fields` are sent before the file `name`, which holds the lines. */
  upload(path: string, fields: Query, name: string): BatchRequest;
}

const NOTHING = { kind: "bytes", bytes: new Uint8Array() } as const;

/** Throws `invalid_config` for an invalid base URL. */
export function bearerRequests(settings: ProviderSettings): BearerRequests {
  const { key } = settings;
  const address = wireAddress(settings, key === undefined ? {} : { authorization: `Bearer ${key}` });
  const { "content-type": _json, ...bare } = address.headers;
  const place = (path: string, query: Query = {}): Pick<BatchRequest, "origin" | "path"> => {
    const asked = new URLSearchParams(address.search);
    for (const [name, value] of Object.entries(query)) asked.set(name, value);
    const search = asked.size === 0 ? "" : `?${asked}`;
    return { origin: address.origin, path: `${address.path}${path}${search}` };
  };
  return {
    get: (path, query) => ({ method: "GET", ...place(path, query), headers: bare, body: NOTHING }),
    content: (path) => {
      const headers = { ...bare, accept: "application/binary" }; // as the official SDKs ask for files
      return { method: "GET", ...place(path), headers, body: NOTHING };
    },
    post: (path, body, query) => ({
      method: "POST",
      ...place(path, query),
      headers: body === undefined ? bare : { ...bare, "content-type": "application/json" },
      body: body === undefined ? NOTHING : { kind: "bytes", bytes: Buffer.from(JSON.stringify(body)) },
    }),
    remove: (path) => ({ method: "DELETE", ...place(path), headers: bare, body: NOTHING }),
    upload: (path, fields, name) => {
      const boundary = `----${name.replace(/[^A-Za-z0-9_-]/g, "-")}`;
      const part = (text: string): string => `--${boundary}\r\nContent-Disposition: form-data; name="${text}`;
      const values = Object.entries(fields).map(([field, value]) => part(`${field}"\r\n\r\n${value}\r\n`));
      const file = part(`file"; filename="${name}"\r\nContent-Type: application/jsonl\r\n\r\n`);
      return {
        method: "POST",
        ...place(path),
        headers: { ...bare, "content-type": `multipart/form-data; boundary=${boundary}` },
        body: {
          kind: "lines",
          before: [...values, file].join(""),
          separator: "\n",
          after: `\r\n--${boundary}--\r\n`,
        },
      };
    },
  };
}
