/** A real PostgreSQL for tests, in a folder of its own; Debian's package. It can be stopped, killed and started again. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { connectPg } from "../src/store/postgres/pg_session.ts";
import { freePort } from "./free_port.ts";

const VERSIONS = "/usr/lib/postgresql";
const TICKS_A_SECOND = 100;

/** Where its programs are, of the newest version; undefined without any. */
function programs(): string | undefined {
  if (!existsSync(VERSIONS)) return undefined;
  const newest = readdirSync(VERSIONS).toSorted((one, other) => Number(other) - Number(one));
  return newest
    .map((version) => join(VERSIONS, version, "bin"))
    .find((bin) => existsSync(join(bin, "initdb")));
}

/** It refuses to run as root; the package makes a user for it. Without the package: nobody. */
function user(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = readFileSync("/etc/passwd", "utf8");
  const ofUser = (name: string): RegExpExecArray | null =>
    new RegExp(`^${name}:[^:]*:(\\d+):(\\d+):`, "m").exec(users);
  const line = ofUser("postgres") ?? ofUser("nobody");
  return line === null ? undefined : { uid: Number(line[1]), gid: Number(line[2]) };
}

/** A temporary folder of the user that PostgreSQL runs as. */
function ownFolder(prefix: string): string {
  const folder = mkdtempSync(join(tmpdir(), prefix));
  const own = user();
  if (own !== undefined) chownSync(folder, own.uid, own.gid);
  return folder;
}

/**
 * A new data folder: a copy of the first one of the run, where a run of tests keeps one. `initdb` starts PostgreSQL twice: 1.4 s of CPU, a copy
 * takes 0.4 s.
 */
function makeData(bin: string, data: string): void {
  const templates = process.env["TEST_POSTGRES_TEMPLATES"];
  const template = templates === undefined ? undefined : join(templates, encodeURIComponent(bin));
  const own = user();
  if (template === undefined || !existsSync(template)) {
    const words = ["-D", data, "-U", "perigee", "-A", "trust", "--no-sync"];
    execFileSync(join(bin, "initdb"), words, { ...own, stdio: "ignore" });
    if (template !== undefined) keepTemplate(data, template);
  } else execFileSync("cp", ["-R", template, data], { ...own });
}

/** Under its name only when it is whole: other processes may make theirs meanwhile, and the first one stays. */
function keepTemplate(data: string, template: string): void {
  const made = join(ownFolder("perigee-template-"), "data");
  execFileSync("cp", ["-R", data, made], { ...user() });
  mkdirSync(dirname(template), { recursive: true });
  try {
    renameSync(made, template);
  } catch {
    // Another process was first.
  }
  rmSync(dirname(made), { recursive: true, force: true });
}

export const POSTGRES = { isThere: programs() !== undefined, install: "apt-get install postgresql" };

export class PostgresServer {
  /** Of its user, with its data. */
  readonly folder: string;
  readonly #port: number;
  readonly #settings: readonly string[];
  /** Where its programs are. */
  readonly #bin: string;
  #process: ChildProcess | undefined;
  #schemas = 0;

  private constructor(folder: string, port: number, settings: readonly string[], bin: string) {
    this.#bin = bin;
    this.folder = folder;
    this.#port = port;
    this.#settings = settings;
  }

  /** A new, empty one that answers. `settings` as `name=value`; `bin` is the folder of its programs, Debian's by default. */
  static async start(
    settings: readonly string[] = [],
    bin: string = programs() ?? "",
  ): Promise<PostgresServer> {
    const folder = ownFolder("perigee-postgres-");
    makeData(bin, join(folder, "data"));
    const server = new PostgresServer(folder, await freePort(), settings, bin);
    await server.up();
    return server;
  }

  /** Starts it again after `down`. */
  async up(): Promise<void> {
    const settings = [
      `port=${this.#port}`,
      "listen_addresses=127.0.0.1",
      `unix_socket_directories=${this.folder}`,
    ];
    const words = [...settings, ...this.#settings].flatMap((setting) => ["-c", setting]);
    const child = spawn(join(this.#bin, "postgres"), ["-D", join(this.folder, "data"), ...words], {
      ...user(),
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    await new Promise<void>((resolve, reject) => {
      let told = "";
      child.stderr?.on("data", (chunk: Buffer) => {
        told += chunk.toString();
        if (told.includes("ready to accept connections")) resolve();
      });
      child.once("exit", () => reject(new Error(`PostgreSQL ended: ${told}`)));
    });
  }

  /** Ends it: `SIGINT` breaks sessions off and stops cleanly, `SIGQUIT` is like a crash. Resolves when it is gone. */
  async down(signal: "SIGINT" | "SIGQUIT"): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    this.#process = undefined;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await gone;
  }

  /** Seconds of processor time that its processes have taken, also those that have ended. */
  cpuSeconds(): number {
    const ofServer = this.#process?.pid;
    let ticks = 0;
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const fields = fieldsOf(pid);
      // user and system time; of the server itself also that of its children that have ended
      if (Number(pid) === ofServer) for (const at of [11, 12, 13, 14]) ticks += Number(fields[at]);
      else if (Number(fields[1]) === ofServer) ticks += Number(fields[11]) + Number(fields[12]);
    }
    return ticks / TICKS_A_SECOND;
  }

  get port(): number {
    return this.#port;
  }

  /** The address of a schema of its own in the database, empty so far. */
  async freshUrl(): Promise<string> {
    this.#schemas += 1;
    const schema = `case_${this.#schemas}`;
    await this.run(`CREATE SCHEMA ${schema}`);
    return `${this.#address()}?options=-c%20search_path%3D${schema}`;
  }

  /** As an administrator. */
  async run(sql: string): Promise<void> {
    const session = await connectPg(this.#address());
    try {
      await session.script(sql);
    } finally {
      session.end();
    }
  }

  async remove(): Promise<void> {
    await this.down("SIGQUIT");
    rmSync(this.folder, { recursive: true, force: true });
  }

  #address(): string {
    return `postgres://perigee@127.0.0.1:${this.#port}/postgres`;
  }
}

/** The fields of a process's state from the third on; empty when it has ended. */
function fieldsOf(pid: string): readonly string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
