/**
 * Proxies from the environment, as curl and others read them: `HTTPS_PROXY` and `HTTP_PROXY` for origins of that scheme,
 * `NO_PROXY` for those that are reached without; lower case wins.
 *
 *   https   a tunnel (CONNECT) through the proxy, TLS inside it: the proxy sees only the host's name
 *   http    the request with its whole address to the proxy
 *
 * `NO_PROXY` lists hosts, with or without a port; a name also matches its subdomains, `*` all hosts.
 */
import { request as connectRequest } from "node:http";
import { request as secureConnectRequest } from "node:https";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import { PerigeeError } from "../errors.ts";

/** What undici's connectors are called with, as far as a tunnel needs it. */
export interface ConnectOptions {
  readonly hostname: string;
  readonly protocol: string;
  readonly port: string;
  readonly httpSocket?: Socket;
}

/** Calls back once, with an error or the socket. */
export type Connect = (
  options: ConnectOptions,
  callback: (error: Error | null, socket: Socket | null) => void,
) => unknown;

type Environment = Readonly<Record<string, string | undefined>>;

/** A proxy to go through. */
export interface HttpProxy {
  readonly origin: string;
  /** Value of `proxy-authorization`; undefined when the address had no user. */
  readonly authorization: string | undefined;
}

/** The proxy for an origin; undefined without one. */
export type ProxyOf = (origin: string) => HttpProxy | undefined;

const PORTS: Readonly<Record<string, string>> = { "https:": "443", "http:": "80" };

/** Throws `invalid_config` for a variable that is not an address of a proxy. */
export function proxiesFrom(env: Environment): ProxyOf {
  const proxies: Readonly<Record<string, HttpProxy | undefined>> = {
    "https:": proxyIn(env, "https_proxy"),
    "http:": proxyIn(env, "http_proxy"),
  };
  const without = (settingOf(env, "no_proxy")?.text ?? "")
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  return (origin) => {
    const url = new URL(origin);
    const proxy = proxies[url.protocol];
    return proxy === undefined || without.some((entry) => isNamed(entry, url)) ? undefined : proxy;
  };
}

/** Opens tunnels through a proxy, on top of which `connect` opens TLS. `timeoutMs` is for the proxy's answer. */
export function tunnelConnector(
  proxy: HttpProxy,
  connect: Connect,
  { clock, timeoutMs }: { readonly clock: Pick<Clock, "timer">; readonly timeoutMs: number },
): Connect {
  return (options, callback) => {
    const port = options.port || PORTS[options.protocol] || "443";
    const path = `${options.hostname.includes(":") ? `[${options.hostname}]` : options.hostname}:${port}`;
    const { protocol, hostname, port: proxyPort } = new URL(proxy.origin);
    const open = protocol === "https:" ? secureConnectRequest : connectRequest;
    const headers = {
      host: path,
      ...(proxy.authorization === undefined ? {} : { "proxy-authorization": proxy.authorization }),
    };
    const host = hostname.replace(/^\[|\]$/g, "");
    const asked = open({
      host,
      port: proxyPort || PORTS[protocol],
      method: "CONNECT",
      path,
      headers,
      agent: false,
    });
    const late = (): void =>
      void asked.destroy(new Error(`timed out after ${timeoutMs} ms waiting for the proxy ${proxy.origin}`));
    const timer = clock.timer(timeoutMs, late, { keepsAlive: false });
    const fail = (error: Error): void => {
      timer.cancel();
      callback(error, null);
    };
    asked.once("error", fail);
    asked.once("response", (response) => asked.destroy(refusal(proxy, response.statusCode)));
    asked.once("connect", (response, socket: Socket) => {
      asked.off("error", fail);
      timer.cancel();
      if (response.statusCode !== 200) {
        socket.destroy();
        fail(refusal(proxy, response.statusCode));
        return;
      }
      connect({ ...options, httpSocket: socket }, callback);
    });
    asked.end();
    return asked;
  };
}

function refusal({ origin }: HttpProxy, status: number | undefined): Error {
  return Object.assign(new Error(`the proxy ${origin} answered ${status} to CONNECT`), {
    code: `PROXY_${status}`,
  });
}

function proxyIn(env: Environment, name: string): HttpProxy | undefined {
  const found = settingOf(env, name);
  if (found === undefined) return undefined;
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(found.text) ? found.text : `http://${found.text}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || PORTS[url.protocol] === undefined)
    throw new PerigeeError(
      "invalid_config",
      `${found.name} must be http://host:port of a proxy (or https://)`,
    );
  const user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  const authorization = user === ":" ? undefined : `Basic ${Buffer.from(user).toString("base64")}`;
  return { origin: url.origin, authorization };
}

function settingOf(
  env: Environment,
  name: string,
): { readonly name: string; readonly text: string } | undefined {
  for (const one of [name, name.toUpperCase()]) {
    const text = env[one]?.trim() ?? "";
    if (text !== "") return { name: one, text };
  }
  return undefined;
}

function isNamed(entry: string, { hostname, port, protocol }: URL): boolean {
  if (entry === "*") return true;
  const [, name = "", entryPort] = /^(.*?)(?::(\d+))?$/.exec(entry.replace(/^\*?\./, "")) ?? [];
  if (entryPort !== undefined && entryPort !== (port || PORTS[protocol])) return false;
  return hostname === name || hostname.endsWith(`.${name}`);
}
