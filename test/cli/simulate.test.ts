/**
 * `perigee simulate` as a command.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk, question } from "./command.ts";

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
  const lines = Array.from({ length: 300 }, (_, index) => question(`k${index}`, "Hello", "box:m1"));
  desk.write("in.jsonl", lines as object[]);
  const config = {
    providers: { box: { baseUrl: "http://127.0.0.1:9/v1", needsKey: false } },
    limits: { box: { requestsPerMinute: 100 } },
    prices: { "box:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } },
  };
  desk.write("config.json", [config]);
});
afterEach(() => desk.remove());

describe("perigee simulate", () => {
  it("prints what a run would take, and sends nothing", async () => {
    const words = ["simulate", "in.jsonl", "--config", "config.json", "--sla", "2"];
    const { code, stdout } = await desk.perigee([...words, "--latency", "0.5,1,2"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^simulated\n {2}items +300\n {2}time +2:00\n/);
    expect(stdout).toMatch(/box:realtime +[12]\d\d items/);
    expect(stdout).toMatch(/deadline of 2 min +at risk: missed in 100% of simulations, by /);
  });

  it("simulates items of an alias at its first model", async () => {
    const config = JSON.parse(desk.read("config.json")) as object;
    desk.write("config.json", [{ ...config, models: { any: ["box:m1", "box:m2"] } }]);
    const words = ["simulate", "in.jsonl", "--config", "config.json", "--model", "any"];
    const { code, stdout } = await desk.perigee(words);
    expect(code).toBe(0);
    expect(stdout).toContain("box:realtime   300 items (100%)");
  });

  it("prints the same as one object with --json", async () => {
    const words = ["simulate", "in.jsonl", "--config", "config.json", "--json", "--output-tokens", "10"];
    const { code, stdout } = await desk.perigee(words);
    expect(code).toBe(0);
    const said = JSON.parse(stdout) as {
      readonly items: number;
      readonly seconds: { readonly median: number };
      readonly models: readonly { readonly latency: string }[];
    };
    expect(said).toMatchObject({ object: "simulation", items: 300, sla_minutes: null, at_risk: 0 });
    expect(said.seconds.median).toBeGreaterThan(170);
    expect(said.seconds.median).toBeLessThan(190);
    expect(said.models[0]?.latency).toBe("assumed");
  });

  it("says what is wrong with an option, and with lines that would fail", async () => {
    const words = ["simulate", "in.jsonl", "--config", "config.json"];
    for (const text of ["3,1", "1,2"]) {
      const latency = await desk.perigee([...words, "--latency", text]);
      expect(latency.code).toBe(2);
      expect(latency.stderr).toContain("It must be seconds above 0");
    }
    const policy = await desk.perigee([...words, "--policy", "cheap"]);
    expect(policy.code).toBe(2);
    expect(policy.stderr).toContain('--policy must be one of cheapest, balanced, fastest, got "cheap"');
    desk.write("bad.jsonl", [question("a", "Hello", "box:m1"), "not JSON"]);
    const bad = await desk.perigee(["simulate", "bad.jsonl", "--config", "config.json"]);
    expect(bad.code).toBe(2);
    expect(bad.stderr).toContain("1 line of bad.jsonl would fail");
  });
});
