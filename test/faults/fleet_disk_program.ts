/**
 * A program whose output is on the disk of a partition, for tests that kill it:
 * `fleet_disk_program.ts <database> <objects> <input>`. Prints how many it has answered, and at the end what it found.
 */

/** As the build has made them: the sources would be compiled again at each start. */
const built = (name: string): string => new URL(`../../dist/${name}.js`, import.meta.url).href;
const { createEngine }: typeof import("../../src/index.ts") = await import(built("index"));
const { openObjects, openPartitionDisk, openPostgresStore }: typeof import("../../src/fleet/index.ts") =
  await import(built("fleet/index"));

const [url = "", objectsUrl = "", input = ""] = process.argv.slice(2);
const ROOT = "/perigee/1";
const OUT = `${ROOT}/answers.jsonl`;
const say = (told: object): boolean => process.stdout.write(`${JSON.stringify(told)}\n`);

/** The partition of a process that died is free within 10 s. */
async function opened(): ReturnType<typeof openPostgresStore> {
  for (;;) {
    try {
      return await openPostgresStore({ url });
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "data_dir_in_use") throw error; // errors of perigee have one
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

const store = await opened();
const objects = await openObjects({ url: objectsUrl });
const disk = await openPartitionDisk({ store, objects, root: ROOT });
let answered = 0;
const engine = await createEngine({
  ...{ dataDir: ROOT, store, disk },
  providers: {
    local: async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      answered += 1;
      if (answered % 50 === 0) say({ answered });
      return { text: "x".repeat(1_000), usage: { inputTokens: 5, outputTokens: 5 } };
    },
  },
});
say({ open: true });
await engine.run(input, { out: OUT }).finished;
const file = await disk.open(OUT, "read");
const bytes = Buffer.alloc(await file.sizeBytes());
await file.read(bytes, 0);
await file.close();
await disk.close();
const lines = bytes.toString().split("\n").slice(0, -1);
const keys = lines.map((line) => (JSON.parse(line) as { readonly key: string }).key); // as perigee writes them
say({ lines: lines.length, keys: new Set(keys).size, answered });
await engine.close();
await objects.close();
