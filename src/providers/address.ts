/**
 * Where requests go: a provider's settings as origin, path and headers.
 *
 * Limits: http and https only; a base URL with a user or password in it is refused (it would end in logs).
 */
import { PerigeeError } from "../errors.ts";
import type { ProviderSettings } from "./provider.ts";

/** The fixed part of a head. */
interface WireAddress {
  /** `https://host:port`. */
  readonly origin: string;
  /** The base URL's path without a trailing slash; may be empty. */
  readonly path: string;
  /** The base URL's query with its `?`, or empty (Azure's `?api-version=`). */
  readonly search: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Reads the base URL and merges the headers, the settings' own last. Throws `invalid_config` for an invalid URL. */
export function wireAddress(
  settings: ProviderSettings,
  credentials: Readonly<Record<string, string>>,
): WireAddress {
  const url = URL.canParse(settings.baseUrl) ? new URL(settings.baseUrl) : undefined;
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw new PerigeeError(
      "invalid_config",
      `provider ${settings.name}: base URL must be like https://host/v1, got ${JSON.stringify(settings.baseUrl)}`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new PerigeeError(
      "invalid_config",
      `provider ${settings.name}: base URL must not hold a user or password`,
    );
  }
  const own = Object.entries(settings.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    origin: url.origin,
    path: url.pathname.replace(/\/+$/, ""),
    search: url.search,
    headers: {
      "content-type": "application/json",
      accept: "application/json",
      "user-agent": "perigee",
      ...credentials,
      ...Object.fromEntries(own),
    },
  };
}

/** The path with the API's version at its end, unless it has one already (`/v1`, `/v1beta`). */
export function versionedPath(path: string, version: string): string {
  return /\/v\d+[a-z0-9]*$/.test(path) ? path : `${path}/${version}`;
}

/**
 * A model's name as one part of a path: all outside the unreserved is escaped, so that no name leads to another path with the
 * operator's key. What a caller adds after it keeps `.` and `..` from being parts of their own.
 */
export function modelPath(model: string): string {
  const bytes = new TextEncoder();
  return model.replace(/[^A-Za-z0-9._~-]/gu, (character) =>
    [...bytes.encode(character)]
      .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`)
      .join(""),
  );
}
