/**
 * Your configuration against providers that behave badly, with checks of your own, in virtual time. Needs no key, sends nothing. Run it:
 *
 *   npx tsx docs/examples/simulate.ts
 */
import { simulate } from "perigee/testing";

const ITEMS = 600;

for (const seed of [1, 2]) {
  const open = new Set(Array.from({ length: ITEMS }, (_, index) => `item-${index}`));
  const { summary, requests, elapsedMs } = await simulate({
    // Your configuration: `await readConfigFile("perigee.json")` of "perigee" reads it from a file.
    config: { maxInFlight: 200 },
    // How you expect your providers to behave.
    providers: {
      openai: {
        latency: { p50: 1.2, p90: 4, p99: 20 },
        requestsPerMinute: 300,
        failures: [
          { kind: "error", status: 503, share: 1, fromSeconds: 60, toSeconds: 150 },
          { kind: "hang", share: 0.005 },
        ],
      },
    },
    items: [...open].map((key) => ({
      key,
      request: {
        model: "openai:gpt-4o-mini",
        contents: [{ role: "user", parts: [{ text: `Question of ${key}` }] }],
        generation_config: { max_output_tokens: 100 },
      },
    })),
    run: { sla: 30, lanes: { deny: ["batch"] } },
    seed,
    // Your own checks: what this throws ends the simulation.
    check: (event) => {
      if (event.type !== "line") return;
      if (event.line.output === null) throw new Error(`${event.line.key}: ${event.line.error?.code}`);
      if (!open.delete(event.line.key ?? "")) throw new Error(`${event.line.key} was answered twice`);
    },
  });
  const refused = requests.filter(({ outcome }) => outcome !== "answered").length;
  const minutes = (elapsedMs / 60_000).toFixed(1);
  console.log(
    `seed ${seed}: ${summary.counts.completed} of ${ITEMS} answered in ${minutes} minutes, ${refused} requests failed, ${open.size} left`,
  );
}
