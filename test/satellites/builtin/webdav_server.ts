/**
 * A WebDAV server in memory (RFC 4918, what clients of files need of it): PROPFIND, GET, PUT, DELETE and MKCOL.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface WebdavServer {
  readonly endpoint: string;
  /** Bytes by path, such as `/a/b.txt`. */
  readonly files: Map<string, Buffer>;
  readonly requests: string[];
  close(): Promise<void>;
}

export async function startWebdav(user: string, password: string): Promise<WebdavServer> {
  const files = new Map<string, Buffer>();
  const folders = new Set(["/"]);
  const versions = new Map<string, number>();
  const requests: string[] = [];
  const expected = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      requests.push(`${request.method} ${request.url}`);
      if (request.headers.authorization !== expected) return void response.writeHead(401).end();
      answer({ files, folders, versions }, request, Buffer.concat(chunks), response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    files,
    requests,
    close: () => new Promise((resolve) => server.close(() => resolve()).closeAllConnections()),
  };
}

interface Tree {
  readonly files: Map<string, Buffer>;
  readonly folders: Set<string>;
  readonly versions: Map<string, number>;
}

function answer(tree: Tree, request: IncomingMessage, body: Buffer, response: ServerResponse): void {
  const path = decodeURIComponent(request.url ?? "/");
  const { files, folders, versions } = tree;
  const file = files.get(path);
  switch (request.method) {
    case "PROPFIND": {
      const folder = path.endsWith("/") ? path : `${path}/`;
      const isFolder = folders.has(folder);
      if (file === undefined && !isFolder) return void response.writeHead(404).end();
      const isDeep = request.headers["depth"] !== "0" && file === undefined;
      const paths = [file === undefined ? folder : path, ...(isDeep ? childrenOf(tree, folder) : [])];
      const xml = `<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">${paths.map((one) => described(tree, one)).join("")}</D:multistatus>`;
      return void response.writeHead(207, { "content-type": "application/xml" }).end(xml);
    }
    case "GET": {
      if (file === undefined) return void response.writeHead(404).end();
      const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
      if (range === null) return void response.writeHead(200, { "content-length": file.length }).end(file);
      const end = range[2] === "" ? file.length : Number(range[2]) + 1;
      return void response.writeHead(206).end(file.subarray(Number(range[1]), end));
    }
    case "PUT":
      files.set(path, body);
      versions.set(path, (versions.get(path) ?? 0) + 1);
      return void response.writeHead(201).end();
    case "MKCOL":
      folders.add(path.endsWith("/") ? path : `${path}/`);
      return void response.writeHead(201).end();
    case "DELETE":
      files.delete(path);
      return void response.writeHead(204).end();
    default:
      return void response.writeHead(405).end();
  }
}

function childrenOf({ files, folders }: Tree, folder: string): string[] {
  const isChild = (path: string): boolean => {
    const rest = path.slice(folder.length).replace(/\/$/, "");
    return path.startsWith(folder) && rest !== "" && !rest.includes("/");
  };
  return [...folders, ...files.keys()].filter(isChild);
}

function described({ files, versions }: Tree, path: string): string {
  const file = files.get(path);
  const type = file === undefined ? "<D:collection/>" : "";
  const size = file === undefined ? "" : `<D:getcontentlength>${file.length}</D:getcontentlength>`;
  const etag = file === undefined ? "" : `<D:getetag>"${versions.get(path)}"</D:getetag>`;
  const href = path.split("/").map(encodeURIComponent).join("/");
  return `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${type}</D:resourcetype>${size}${etag}<D:getlastmodified>Sat, 21 Nov 2026 10:00:00 GMT</D:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`;
}
