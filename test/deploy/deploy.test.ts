/**
 * The files of `deploy/` and the Dockerfile against the program that they start: options, ports, variables, times. No daemon and no cluster
 * is needed; systemd reads its unit where it is installed.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { checkVariables } from "../../src/engine/config/variables.ts";
import { MAIN } from "../built.ts";
import { describeCounterpart, pathOf } from "../counterpart.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (name: string): string => readFileSync(join(root, name), "utf8");
const compose = parse(read("deploy/compose.yaml"), { merge: true }) as { services: Record<string, Service> };
const manifests = readdirSync(join(root, "deploy/kubernetes")).flatMap((name) =>
  parseAllDocuments(read(`deploy/kubernetes/${name}`)).map((document) => {
    expect(document.errors, name).toEqual([]);
    return document.toJS() as Manifest;
  }),
);
const unit = read("deploy/perigee.service");
const dockerfile = read("Dockerfile");

interface Service {
  readonly image?: string;
  readonly command?: readonly string[];
  readonly environment?: Record<string, string>;
  readonly healthcheck?: { readonly test?: readonly string[] };
  readonly stop_grace_period?: string;
  readonly depends_on?: Record<string, { readonly condition: string }>;
}

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly {
    readonly name: string;
    readonly valueFrom?: { readonly secretKeyRef?: { readonly key: string } };
  }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly [field: string]: unknown;
}

interface PodSpec {
  readonly enableServiceLinks?: boolean;
  readonly terminationGracePeriodSeconds?: number;
  readonly securityContext: { readonly runAsNonRoot?: boolean };
  readonly containers: readonly Container[];
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly stringData?: Record<string, string>;
  readonly spec: Record<string, unknown> & { readonly template: { readonly spec: PodSpec } };
}

const ofKind = (kind: string): Manifest => {
  const found = manifests.find((manifest) => manifest.kind === kind);
  if (found === undefined) throw new Error(`no ${kind}`);
  return found;
};
const pods = manifests
  .filter(({ kind }) => ["Deployment", "Job"].includes(kind))
  .map(({ spec }) => spec.template.spec);

/** Of everything here that starts perigee. */
const commands: readonly (readonly string[])[] = [
  ...Object.values(compose.services).flatMap(({ command }) => (command === undefined ? [] : [command])),
  ...pods.flatMap(({ containers }) => containers.map(({ args }) => args)),
  (/^ExecStart=(.*)$/m.exec(unit)?.[1] ?? "").split(" ").slice(2),
  JSON.parse(/^CMD (\[.*\])$/m.exec(dockerfile)?.[1] ?? "[]") as string[],
];

/** `--port 8080` and `--port=8080`. */
function optionOf(command: readonly string[], flag: string): string | undefined {
  const index = command.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  if (index < 0) return undefined;
  const word = command[index];
  return word?.includes("=") === true ? word.slice(flag.length + 1) : command[index + 1];
}

/** Time that a process of the fleet may take to end (src/cli/serve.ts). */
const CLOSE_SECONDS = Number(/CLOSE_MS_MAX = (\d+)_000/.exec(read("src/cli/serve.ts"))?.[1]);

describe("what is deployed", () => {
  it("is started with commands and options that exist", () => {
    expect(commands.length).toBe(8);
    const help = new Map<string, string>();
    for (const [name = "", ...words] of commands) {
      if (!help.has(name))
        help.set(name, execFileSync(process.execPath, [MAIN, name, "--help"], { encoding: "utf8" }));
      const flags = words.filter((word) => word.startsWith("--")).map((word) => word.split("=")[0] ?? "");
      expect(flags.length).toBeGreaterThan(0);
      for (const flag of flags)
        expect(help.get(name), `${name} ${flag}`).toMatch(new RegExp(`^  ${flag}[ ,]`, "m"));
    }
  });

  it("has an address that other workers reach, and a public one where it has no port of its own", () => {
    const serving = commands.filter(([name]) => name === "serve");
    for (const command of serving.filter((words) => optionOf(words, "--store") !== undefined)) {
      if (optionOf(command, "--role") !== "api")
        expect(optionOf(command, "--private-host"), command.join(" ")).toMatch(/./);
      expect(optionOf(command, "--public-url"), command.join(" ")).toMatch(/^(https?:|\$\{PUBLIC_URL\})/);
    }
  });

  it("sets only variables that perigee takes, also where Kubernetes would add its own", () => {
    const names = [
      ...Object.values(compose.services).flatMap(({ environment }) => Object.keys(environment ?? {})),
      ...pods.flatMap(({ containers }) => containers.flatMap(({ env }) => env.map(({ name }) => name))),
      ...[...unit.matchAll(/^# {3}([A-Z_]+)=/gm)].map(([, name]) => name ?? ""),
    ];
    expect(names).toContain("PERIGEE_SECRETS_KEY");
    checkVariables(Object.fromEntries(names.map((name) => [name, "x"])));
    expect(() => checkVariables({ PERIGEE_PORT: "tcp://10.0.0.1:80" })).toThrow(/PERIGEE_PORT/);
    for (const { enableServiceLinks } of pods) expect(enableServiceLinks).toBe(false);
    const keys = pods.flatMap(({ containers }) =>
      containers.flatMap(({ env }) => env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef?.key ?? [])),
    );
    const { stringData = {} } = ofKind("Secret");
    expect([...new Set(keys)].sort()).toEqual(Object.keys(stringData).sort());
  });

  it("is given the time that it takes to end", () => {
    expect(CLOSE_SECONDS).toBe(35);
    const [deployed] = pods.filter(
      ({ terminationGracePeriodSeconds }) => terminationGracePeriodSeconds !== undefined,
    ) as [PodSpec];
    const [container] = deployed.containers as [Container];
    const { exec } = (container["lifecycle"] as { preStop: { exec: { command: readonly string[] } } })
      .preStop;
    const preStopSeconds = Number(/, (\d+)000\)/.exec(exec.command.at(-1) ?? "")?.[1]);
    expect(preStopSeconds).toBeGreaterThan(0);
    expect(deployed.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(preStopSeconds + CLOSE_SECONDS);
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThanOrEqual(CLOSE_SECONDS);
    for (const name of ["api", "worker-1", "worker-2"])
      expect(
        Number.parseInt(compose.services[name]?.stop_grace_period ?? "0", 10),
        name,
      ).toBeGreaterThanOrEqual(CLOSE_SECONDS);
  });
});

describe("the manifests for Kubernetes", () => {
  it("agree on ports, labels and versions", () => {
    const { spec } = ofKind("Deployment");
    const [container] = spec.template.spec.containers as [Container];
    const ports = new Map(
      (container.ports ?? []).map(({ name, containerPort }) => [name, String(containerPort)]),
    );
    const flags = { http: "--port", private: "--private-port", metrics: "--metrics-port" };
    for (const [name, flag] of Object.entries(flags))
      expect(optionOf(container.args, flag)).toBe(ports.get(name));
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"])
      expect((container[probe] as { httpGet: { port: string } }).httpGet.port).toBe("http");
    const service = ofKind("Service").spec as unknown as {
      selector: object;
      ports: { targetPort: string }[];
    };
    expect(service.ports.map(({ targetPort }) => targetPort)).toEqual(["http"]);
    const labels = (spec.template as unknown as { metadata: { labels: object } }).metadata.labels;
    const policy = ofKind("NetworkPolicy").spec as unknown as {
      podSelector: object;
      ingress: { from?: object; ports: { port: number }[] }[];
    };
    const selectors = [spec["selector"], ofKind("PodDisruptionBudget").spec["selector"], policy.podSelector];
    expect([
      service.selector,
      ...selectors.map((selector) => (selector as { matchLabels: object }).matchLabels),
    ]).toEqual([labels, labels, labels, labels]);
    const open = policy.ingress.filter(({ from }) => from === undefined).flatMap(({ ports: all }) => all);
    expect(open.map(({ port }) => String(port))).not.toContain(ports.get("private"));
    const { version } = JSON.parse(read("package.json")) as { version: string };
    for (const { containers } of pods)
      for (const { image } of containers) expect(image.split(":").at(-1)).toBe(version);
  });

  it("let no two workers leave at once, and run none as root", () => {
    const { spec } = ofKind("Deployment");
    expect(spec["strategy"]).toMatchObject({ rollingUpdate: { maxUnavailable: 0 } });
    expect(ofKind("PodDisruptionBudget").spec["maxUnavailable"]).toBe(1);
    for (const { securityContext } of pods) expect(securityContext.runAsNonRoot).toBe(true);
  });
});

describe("the image", () => {
  it("has the Node that the package is for and the pg that it is tested with, and runs as an ordinary user", () => {
    const { devDependencies } = JSON.parse(read("package.json")) as {
      devDependencies: Record<string, string>;
    };
    const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    expect([...new Set(bases)]).toEqual(["node:20.20-bookworm-slim"]);
    expect(dockerfile).toContain(`pg@${devDependencies["pg"]}\n`);
    const last = dockerfile.slice(dockerfile.lastIndexOf("FROM "));
    expect(last).toMatch(/^USER node$/m);
    expect(last).toMatch(/^STOPSIGNAL SIGTERM$/m);
    expect(last).toMatch(/^EXPOSE 8080$/m);
    expect(last).toMatch(/^HEALTHCHECK .* CMD \["node", "\/app\/healthy\.mjs"\]$/m);
  });

  it("has all files that are copied into it in its context", () => {
    const kept = read(".dockerignore")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1));
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names]) =>
      (names ?? "").split(" "),
    );
    for (const name of copied.filter((name) => name !== ".")) expect(kept).toContain(name);
    const { scripts, files } = JSON.parse(read("package.json")) as {
      scripts: Record<string, string>;
      files: string[];
    };
    const needed = [...(scripts["build"] ?? "").matchAll(/(tsconfig[\w.]*json)|(scripts)\//g)].map(([word]) =>
      word.replace("/", ""),
    );
    for (const name of [
      ...needed,
      ...files.filter((name) => name !== "dist").map((name) => name.split("/")[0] ?? ""),
    ])
      expect(kept).toContain(name);
  });
});

describe("the load balancer and the database of the compose file", () => {
  it("wait for one another in an order without a circle, and the database is asked whether it is ready", () => {
    const order = (name: string, seen: readonly string[]): void => {
      expect(seen).not.toContain(name);
      for (const next of Object.keys(compose.services[name]?.depends_on ?? {})) order(next, [...seen, name]);
    };
    for (const name of Object.keys(compose.services)) order(name, []);
    expect(compose.services["migrate"]?.depends_on).toEqual({ database: { condition: "service_healthy" } });
    expect(compose.services["database"]?.healthcheck?.test?.[1]).toBe("pg_isready");
    expect(optionOf(compose.services["api"]?.command ?? [], "--port")).toBe("8080");
    expect(read("deploy/Caddyfile")).toMatch(/dynamic a api 8080 \{/);
    for (const name of ["worker-1", "worker-2"])
      expect(compose.services[name]?.healthcheck?.test?.[1]).toContain(
        `:${optionOf(compose.services[name]?.command ?? [], "--private-port")}/`,
      );
  });
});

describe("the health check", () => {
  it("ends with 0 where something answers, and with 1 for 503, another service and nothing at all", async () => {
    const server = createServer((request, response) => {
      response.writeHead(Number(request.url?.slice(1))).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const check = (path: string, at: number = port): Promise<number | null> =>
      new Promise((resolve) => {
        const words = [join(root, "deploy/healthy.mjs"), `http://127.0.0.1:${at}${path}`];
        spawn(process.execPath, words).once("exit", resolve);
      });
    try {
      expect(await Promise.all(["/200", "/403", "/503", "/404"].map((path) => check(path)))).toEqual([
        0, 0, 1, 1,
      ]);
      expect(await check("/", 1)).toBe(1);
    } finally {
      server.close();
    }
  });
});

describeCounterpart(
  "systemd",
  { isThere: pathOf("systemd-analyze") !== undefined, install: "apt-get install systemd" },
  () => {
    it("takes the unit without a warning, and finds little that it exposes", () => {
      const folder = mkdtempSync(join(tmpdir(), "perigee-unit-"));
      try {
        const path = join(folder, "perigee.service");
        writeFileSync(path, unit.replace("/usr/bin/node", process.execPath));
        const verified = spawnSync("systemd-analyze", ["verify", "--man=no", path], { encoding: "utf8" });
        expect([verified.status, verified.stderr]).toEqual([0, ""]);
        const security = spawnSync(
          "systemd-analyze",
          ["security", "--offline=true", "--threshold=20", path],
          { encoding: "utf8" },
        );
        expect([security.status, security.stdout]).toEqual([
          0,
          expect.stringContaining("Overall exposure level"),
        ]);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },
);
