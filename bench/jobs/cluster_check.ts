/**
 * How long a cluster of 200 members takes to be checked, from YAML to no issues: at most 50 ms.
 *
 *   npm run bench -- cluster_check
 *
 * Members have the schemas of the satellites that come with perigee; each of them but the first refers to two others.
 */
import assert from "node:assert";
import { checkDeclaration } from "../../src/clusters/declaration/check.ts";
import { vendorSatellites } from "../../src/satellites/builtin/vendor.ts";
import type { SatelliteResolver } from "../../src/satellites/sdk/catalogue.ts";
import type { Satellite } from "../../src/satellites/sdk/satellite.ts";

const MEMBERS = 200;
const ROUNDS = 100;

const satellites = new Map(vendorSatellites().map((one) => [one.name, one as Satellite]));
const resolver: SatelliteResolver = {
  resolve: async (_caller, reference) => {
    const satellite = satellites.get(reference.name);
    assert(satellite !== undefined);
    return { reference, kind: "vendor", satellite, fixedConfig: {} };
  },
};

function declaration(): string {
  const members = Array.from({ length: MEMBERS }, (_, index) => {
    const before = `\${{ member-${Math.max(0, index - 1)}.output.response }} and \${{ member-${index >> 1}.output.model }}`;
    const prompt = index === 0 ? "begin" : before;
    return `    - name: Member ${index}
      uses: satellite/perigee/deepseek-r1-distrill-llama-70b
      identifier: member-${index}
      config:
        max_tokens: 512
        temperature: 0.2
      input:
        prompt: "${prompt}"
`;
  });
  return `sla: 24h\ncluster:\n  satellites:\n${members.join("")}`;
}

const text = declaration();
const caller = { project: "bench", keyId: undefined, isBeta: true };
const times: number[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const before = performance.now();
  const { issues } = await checkDeclaration(text, { caller, resolver });
  times.push(performance.now() - before);
  assert.deepEqual(issues.list, []);
}
const [first = 0] = times;
const sorted = times.toSorted((one, two) => one - two);
const at = (share: number): string => (sorted[Math.floor(share * (ROUNDS - 1))] ?? 0).toFixed(1);
console.log(
  `${MEMBERS} members, ${text.length} bytes: first ${first.toFixed(1)} ms, median ${at(0.5)}, p99 ${at(0.99)}`,
);
