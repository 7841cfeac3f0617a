/**
 * One rival as a process of its own, started by `bench/jobs/rivals.ts`: `node start.mjs NAME OPTIONS`, the options as JSON.
 */
const [name, options] = process.argv.slice(2);
const { run } = await import(`./${name}.mjs`);
await run(JSON.parse(options));
