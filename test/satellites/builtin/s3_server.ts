/**
 * s3rver as a process of its own: its tokens for the next page need ciphers that Node leaves to a flag.
 */
import { spawn } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface S3Server {
  readonly endpoint: string;
  /** Config of a store: one of the two buckets. */
  store(bucket: "one" | "two"): Record<string, unknown>;
  /** Puts the object `0` of a folder under the keys `1` to `count - 1` of it as well, without requests. */
  repeat(bucket: "one" | "two", path: string, count: number): void;
  close(): Promise<void>;
}

export async function startS3(): Promise<S3Server> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-s3-"));
  for (const bucket of ["one", "two"]) mkdirSync(join(folder, bucket));
  const script = createRequire(import.meta.url).resolve("s3rver/bin/s3rver.js");
  const child = spawn(
    process.execPath,
    [
      "--openssl-legacy-provider",
      script,
      ...["--directory", folder, "--address", "127.0.0.1", "--port", "0"],
      ...["--configure-bucket", "one", "--configure-bucket", "two", "--silent"],
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  let said = "";
  const port = await new Promise<string>((resolve, reject) => {
    const hear = (chunk: Buffer): void => {
      said += chunk.toString();
      const found = /listening on [^:]*:(\d+)/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", () => reject(new Error(`s3rver ended: ${said}`)));
  });
  const endpoint = `http://127.0.0.1:${port}`;
  return {
    endpoint,
    store: (bucket) => ({
      type: "s3",
      bucket,
      endpoint,
      path_style: true,
      access_key_id: "S3RVER",
      secret_access_key: "S3RVER",
    }),
    repeat(bucket, path, count) {
      const place = join(folder, bucket, path);
      for (const name of readdirSync(place)) // 0._S3rver_object and what is noted of it
        for (let index = 1; index < count; index += 1)
          linkSync(join(place, name), join(place, name.replace("0", String(index))));
    },
    async close() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
