/**
 * An engine that shares the limits of one provider with others: `limit_program <database> <data folder> <address of the provider> <requests a minute>
 * <first item> <items>`. It prints a line when it is ready, and begins with the first byte of its input. It ends when it is killed.
 */
import { once } from "node:events";

/** As the build has made them: the packages are found from there. */
const built = (name: string): string => new URL(`../../../dist/${name}.js`, import.meta.url).href;
const { createEngine }: typeof import("../../../src/index.ts") = await import(built("index"));
const { PgLimitPool }: typeof import("../../../src/fleet/shared/pg_limit_pool.ts") = await import(
  built("fleet/shared/pg_limit_pool")
);

const [url = "", dataDir = "", baseUrl = "", perMinute = "", first = "", count = ""] = process.argv.slice(2);
const engine = await createEngine({
  ...{ dataDir, stateDir: false, limitPool: new PgLimitPool(url) },
  providers: { local: { baseUrl, needsKey: false } },
  limits: { local: { requestsPerMinute: Number(perMinute) } },
});
const items = Array.from({ length: Number(count) }, (_, index) => ({
  ...{ key: `k${Number(first) + index}`, model: "local:small", sla: 3_600 },
  input: `[[${Number(first) + index}]]`,
}));
process.stdout.write("ready\n");
await once(process.stdin, "data");
await engine.submit(items, { id: "items" }).finished;
