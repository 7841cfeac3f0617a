/** Versions of HTTP other than 1.0 and 1.1, which Node's parser takes: no server answers them as requests. */
import { connect } from "node:net";
import { expect, it } from "vitest";
import { openMetricsPort } from "../../src/service/operate/metrics_routes.ts";
import { host } from "../satellites/orbit_world.ts";
import { openWhole } from "./whole.ts";

/** All that is answered until the server closes the connection. */
function sent(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    let answered = "";
    socket.on("data", (chunk) => {
      answered += String(chunk);
    });
    socket.on("close", () => resolve(answered));
    socket.on("error", reject);
  });
}

const OTHERS = [
  "GET /healthz\r\n\r\n",
  "GET /healthz HTTP/0.9\r\n\r\n",
  "GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n",
];

it.each(OTHERS)("the service answers 505 and closes: %j", async (request) => {
  const port = Number(new URL((await openWhole()).url).port);
  const answered = await sent(port, request);
  expect(answered).toMatch(/^HTTP\/1\.1 505 /);
  expect(answered).toContain('"code":"http_version_not_supported"');
  expect(answered).not.toContain('"status":"ok"');
  expect(await sent(port, "GET /healthz HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 /);
});

it.each(OTHERS)("a host of satellites answers 505: %j", async (request) => {
  const { url } = await host([]);
  expect(await sent(Number(new URL(url).port), request)).toMatch(/^HTTP\/1\.1 505 /);
});

it("the port of metrics answers 505", async () => {
  const metrics = { render: async () => ({ contentType: "text/plain", text: "metrics" }) };
  const opened = await openMetricsPort(metrics as never, { host: "127.0.0.1", port: 0 });
  expect(await sent(opened.port, "GET /metrics\r\n\r\n")).toMatch(/^HTTP\/1\.1 505 /);
  await opened.close();
});
