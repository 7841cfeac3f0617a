/**
 * Clusters through crashes: random members that refer to each other, fail, are skipped or fan out, in processes that die at any
 * moment. Laws: no execution ends twice, nothing begins before what it waits for has ended, every reference has the
 * value that was there, and all end as a model without processes says. A single seed: PERIGEE_SEED=17 npx vitest run test/simulation/clusters
 */
import { describe, expect, it } from "vitest";
import type { ClusterView } from "../../src/clusters/cluster.ts";
import { PerigeeError } from "../../src/errors.ts";
import type { ExecutionRequest } from "../../src/satellites/sdk/execution.ts";
import { createRandom } from "../../src/testing/random.ts";
import { ONE } from "../clusters/satellites.ts";
import { ClusterWorld, declared, finished, statuses } from "../clusters/world.ts";

const RUN = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";
const given = process.env["PERIGEE_SEED"];
const count = Number(process.env["PERIGEE_SEEDS"] ?? 60);
const seeds = given === undefined ? Array.from({ length: count }, (_, index) => index + 1) : [Number(given)];

interface PlannedMember {
  readonly identifier: string;
  readonly needs: readonly string[];
  readonly if: "success" | "on_failure" | "always";
  /** Elements of its list; absent: no list. */
  readonly elements?: number;
  /** Which of its executions fail, by index; of one without a list 0. */
  readonly failing: ReadonlySet<number>;
}

function draw(random: () => number): readonly PlannedMember[] {
  const whole = (below: number): number => Math.floor(random() * below);
  const members: PlannedMember[] = [];
  for (let index = 0; index < 1 + whole(14); index += 1) {
    const names = members.map(({ identifier }) => identifier);
    const needs = names.filter(() => random() < 0.25);
    const elements = random() < 0.25 ? whole(30) : undefined;
    const isBad = random() < 0.2;
    members.push({
      identifier: `m${index}`,
      needs,
      // Without names it would wait for others by itself, which a test of its own looks at.
      if: needs.length === 0 || random() < 0.6 ? "success" : random() < 0.5 ? "on_failure" : "always",
      ...(elements === undefined ? {} : { elements }),
      failing: new Set(isBad ? [whole(elements ?? 1)] : []),
    });
  }
  return members;
}

/** The declaration: half of what a member needs is referred to, half is named. */
function declare(members: readonly PlannedMember[]): readonly object[] {
  return members.map(({ identifier, needs, elements, ...member }) => {
    const referred = needs.filter((_, index) => index % 2 === 0);
    return {
      identifier,
      if: member.if,
      needs: needs.filter((_, index) => index % 2 === 1),
      ...(elements === undefined
        ? {}
        : { each: Array.from({ length: elements }, (_, index) => index * 3), concurrency: 4 }),
      input: {
        ...Object.fromEntries(referred.map((name) => [name, `\${{ ${name}.output }}`])),
        ...(elements === undefined ? {} : { item: "${{ each.item }}" }),
      },
    };
  });
}

/** How all must end. */
function model(members: readonly PlannedMember[]): Record<string, string> {
  const ends: Record<string, string> = {};
  const failed = new Set<string>();
  for (const { identifier, needs, elements, failing, ...member } of members) {
    const hasFailure = needs.some((name) => failed.has(name));
    const isRun =
      member.if === "always" ||
      (member.if === "success" ? needs.every((name) => ends[name] === "completed") : hasFailure);
    const hasFailed = elements === 0 ? false : failing.size > 0;
    ends[identifier] = isRun ? (hasFailed ? "failed" : "completed") : "skipped";
    if (ends[identifier] === "failed" || (!isRun && member.if === "success" && hasFailure))
      failed.add(identifier);
  }
  return ends;
}

/** What a member's output must be, once it has ended. */
function outputOf(member: PlannedMember | undefined, end: string | undefined): unknown {
  if (member === undefined) return undefined;
  const { identifier, elements, failing } = member;
  if (elements === undefined) return end === "completed" ? { of: identifier, index: 0 } : null;
  if (end === "skipped") return null;
  return Array.from({ length: elements }, (_, index) =>
    failing.has(index) ? null : { of: identifier, index },
  );
}

class Simulation {
  readonly #random: () => number;
  readonly #members: readonly PlannedMember[];
  readonly #ends: Record<string, string>;
  readonly #world: ClusterWorld;
  readonly violations: string[] = [];
  processes = 0;

  constructor(seed: number) {
    const random = createRandom(seed);
    this.#random = random;
    this.#members = draw(random);
    this.#ends = model(this.#members);
    this.#world = new ClusterWorld(
      (request) => {
        const { identifier = "", index = 0 } = request.member ?? {};
        const isFailing = this.#member(identifier)?.failing.has(index) === true;
        return {
          afterMs: Math.floor(random() * 200),
          ...(isFailing ? { error: "boom" } : { output: { of: identifier, index } }),
        };
      },
      { commitMs: Math.floor(random() * 8), random },
    );
    this.#world.ledger.refuse = (request) => this.#submitted(request);
  }

  async run(): Promise<ClusterView> {
    let isKnown = false;
    for (let life = 0; life < Math.floor(this.#random() * 12); life += 1) {
      this.processes += 1;
      const opening = this.#world.open().then(async ({ clusters }) => {
        if (!isKnown) await this.#submit(clusters);
        isKnown = true;
      });
      opening.catch(() => undefined); // killed
      await this.#world.clock.advance(Math.floor(this.#random() * 250));
      this.#world.kill();
    }
    const { clusters } = await this.#world.clock.runUntilSettled(this.#world.open());
    if (!isKnown) await this.#world.clock.runUntilSettled(this.#submit(clusters));
    return await finished(this.#world, clusters, RUN);
  }

  /** What holds of every run once it is over. */
  check(view: ClusterView): void {
    expect(statuses(view)).toEqual(this.#ends);
    const hasFailed = Object.values(this.#ends).includes("failed");
    expect(view.status).toBe(hasFailed ? "failed" : "completed");
    const { ended, submitted } = this.#world.ledger;
    expect(new Set(ended).size).toBe(ended.length);
    const expected = this.#members.flatMap(({ identifier, elements = 1 }) =>
      this.#ends[identifier] === "skipped" ? [] : Array.from({ length: elements }, () => identifier),
    );
    expect(ended.length).toBe(expected.length);
    expect(new Set(submitted.map(({ id }) => id)).size).toBe(expected.length);
    for (const member of this.#members) {
      const shown = view.members.find(({ identifier }) => identifier === member.identifier);
      expect(shown?.output, member.identifier).toEqual(outputOf(member, this.#ends[member.identifier]));
    }
    expect(this.violations).toEqual([]);
  }

  async #submit(clusters: Awaited<ReturnType<ClusterWorld["open"]>>["clusters"]): Promise<void> {
    try {
      await clusters.submit(ONE, { id: RUN, declaration: declared(declare(this.#members)) });
    } catch (error) {
      if (!(error instanceof PerigeeError) || error.code !== "conflict") throw error;
    }
  }

  /** Looks at each submission when it is made; sometimes there is no room for it. */
  #submitted({ member, input, id }: ExecutionRequest): PerigeeError | undefined {
    const planned = this.#member(member?.identifier ?? "");
    const { ended } = this.#world.ledger;
    for (const name of planned?.needs ?? []) {
      const needed = this.#member(name);
      const total = this.#ends[name] === "skipped" ? 0 : (needed?.elements ?? 1);
      const ids = new Set(
        this.#world.ledger.submitted.filter((one) => one.member?.identifier === name).map((one) => one.id),
      );
      const done = [...ids].filter((one) => ended.includes(one ?? "")).length;
      if (done < total) this.violations.push(`${planned?.identifier} began before ${name} had ended`);
      if (Object.hasOwn(input, name)) {
        const found = JSON.stringify(input[name]);
        const right = JSON.stringify(outputOf(needed, this.#ends[name]));
        if (found !== right)
          this.violations.push(`${planned?.identifier} saw ${found} of ${name}, not ${right}`);
      }
    }
    if (member?.index !== undefined && input["item"] !== member.index * 3)
      this.violations.push(`${planned?.identifier}[${member.index}] saw ${JSON.stringify(input["item"])}`);
    if (id === undefined) this.violations.push("an execution without an id");
    return this.#random() < 0.05 ? new PerigeeError("too_many", "full") : undefined;
  }

  #member(identifier: string): PlannedMember | undefined {
    return this.#members.find((member) => member.identifier === identifier);
  }
}

describe("clusters in processes that die", () => {
  it.each(seeds)("keep their laws with seed %i", async (seed) => {
    const simulation = new Simulation(seed);
    simulation.check(await simulation.run());
  });
});
