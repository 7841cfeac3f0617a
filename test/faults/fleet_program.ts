/**
 * A program with a store on PostgreSQL, for tests that kill it: `fleet_program <database> <data folder> <items>`.
 * Prints a line when its engine is open, and one for each answer.
 */

/** As the build has made them: the sources would be compiled again at each start. */
const built = (name: string): string => new URL(`../../dist/${name}.js`, import.meta.url).href;
const { createEngine }: typeof import("../../src/index.ts") = await import(built("index"));
const { openPostgresStore }: typeof import("../../src/fleet/index.ts") = await import(built("fleet/index"));

const [url = "", dataDir = "", count = "0"] = process.argv.slice(2);

/** The partition of a process that died is free within 10 s. */
async function opened(): ReturnType<typeof openPostgresStore> {
  for (;;) {
    try {
      return await openPostgresStore({ url });
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "data_dir_in_use") throw error; // errors of perigee have one
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

const engine = await createEngine({
  dataDir,
  stateDir: false,
  store: await opened(),
  providers: { local: {} },
});
process.stdout.write('{"open":true}\n');
const items = Array.from({ length: Number(count) }, (_, index) => ({
  key: `k${index + 1}`,
  model: "local:small",
  input: `[[${index + 1}]]`,
}));
for await (const { output } of engine.submit(items, { id: "questions" }))
  process.stdout.write(`${JSON.stringify({ output })}\n`);
await engine.close();
