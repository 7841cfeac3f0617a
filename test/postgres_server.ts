/** A real PostgreSQL for tests, in a folder of its own; Debian's package. It can be stopped, killed and started again. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectPg } from "../src/store/postgres/pg_session.ts";
import { freePort } from "./free_port.ts";

const VERSIONS = "/usr/lib/postgresql";

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
    const folder = mkdtempSync(join(tmpdir(), "perigee-postgres-"));
    const own = user();
    if (own !== undefined) chownSync(folder, own.uid, own.gid);
    const initdb = [
      join(bin, "initdb"),
      "-D",
      join(folder, "data"),
      "-U",
      "perigee",
      "-A",
      "trust",
      "--no-sync",
    ];
    execFileSync(initdb[0] ?? "", initdb.slice(1), { ...own, stdio: "ignore" });
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
