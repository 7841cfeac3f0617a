/**
 * Clusters and executions on the operator page, as a browser shows them.
 */
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { z } from "../../src/schema.ts";
import { enterKey, fits, isThere, MARKUP, openBrowser, openPage, SCREENS, shoot } from "./browser.ts";
import { openPageWorld, type PageWorld } from "./page_world.ts";

/** Waits for `open`, or for so long; fails a number of attempts first, or for good. */
const step = defineSatellite({
  name: "step",
  input: z.strictObject({
    ms: z.int().default(0),
    gate: z.string().optional(),
    failures: z.int().default(0),
    broken: z.boolean().default(false),
    of: z.unknown().optional(),
  }),
  isRepeatable: true,
  run: async ({ input, attempt, clock, signal, progress }) => {
    const { ms, gate, failures, broken } = input;
    if (attempt <= failures) throw new SatelliteError("refused", "busy", "not now", { retryAfterMs: 20 });
    if (broken) throw new SatelliteError("permanent", "disk_on_fire", "it burns");
    progress(3, 8);
    if (gate !== undefined) await untilOpen(gate, signal);
    if (ms > 0) await clock.sleep(ms, { signal });
    return { list: [1, 2, 3, 4, 5, 6] };
  },
});

const gates = new Map<string, { readonly promise: Promise<void>; open(): void }>();

function gateOf(name: string) {
  const known = gates.get(name);
  if (known !== undefined) return known;
  let open: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  const gate = { promise, open };
  gates.set(name, gate);
  return gate;
}

/** Rejects when the execution is given up. */
function untilOpen(gate: string, signal: AbortSignal): Promise<void> {
  const given = new Promise<void>((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  return Promise.race([gateOf(gate).promise, given]);
}

interface Member {
  readonly identifier: string;
  readonly name?: string;
  readonly input?: object;
  readonly [key: string]: unknown;
}

let world: PageWorld;
let browser: Browser;

beforeAll(async () => {
  if (!isThere) return;
  browser = await openBrowser();
  world = await openPageWorld({
    scopes: ["infer:read", "infer:write", "satellites:read", "satellites:run"],
    satellites: { trusted: [{ project: "red", satellites: [step] }] },
  });
}, 60_000);

afterAll(async () => {
  for (const gate of gates.values()) gate.open();
  await browser?.close();
  await world?.close();
});

/** The page with its key, and all that its console has complained of. */
async function openBoard(): ReturnType<typeof openPage> {
  const opened = await openPage(browser, world.url);
  await enterKey(opened.page);
  await opened.page.getByRole("heading", { name: "Clusters" }).waitFor();
  return opened;
}

async function runCluster(members: readonly Member[]): Promise<string> {
  const satellites = members.map((member) => ({
    ...{ name: member.identifier, uses: "satellite/red/step" },
    ...member,
  }));
  const declaration = { sla: "30m", cluster: { satellites } };
  return String((await world.call("POST", "/v1/clusters/", { declaration }))["cluster_id"]);
}

async function execute(input: object): Promise<string> {
  return String((await world.call("POST", "/v1/satellites/red/step/", { input }))["execution_id"]);
}

async function statusOf(path: string): Promise<unknown> {
  return (await world.call("GET", path))["status"];
}

/** The place of a cluster or an execution. */
function placeOf(page: Page, kind: "cluster" | "execution", id: string): Locator {
  return page.locator(`li.${kind}`).filter({ hasText: id.slice(-8) });
}

/** A cluster whose graph is shown. */
async function graphOf(page: Page, id: string): Promise<Locator> {
  const place = placeOf(page, "cluster", id);
  await place.waitFor();
  if ((await place.locator("details").getAttribute("open")) === null) await place.locator("summary").click();
  return place;
}

function nodeOf(graph: Locator, name: string): Locator {
  return graph.locator(".node").filter({ has: graph.page().locator(".node-name", { hasText: name }) });
}

/** A diamond, and behind it a fan-out, one that fails after retries, one for that, and one that is skipped. */
function diamond(gate: string): readonly Member[] {
  return [
    { identifier: "fetch", name: "Fetch documents", input: { ms: 120, failures: 2 } },
    { identifier: "parse", name: "Parse", input: { of: "${{ fetch.output.list }}" } },
    { identifier: "count", name: "Count tokens", input: { of: "${{ fetch.output.list }}", gate } },
    { identifier: "join", name: "Join", input: { of: ["${{ parse.output }}", "${{ count.output }}"] } },
    {
      identifier: "infer",
      name: "Infer",
      each: "${{ parse.output.list }}",
      input: { of: "${{ each.item }}" },
    },
    { identifier: "deliver", name: "Deliver", input: { of: "${{ parse.output }}", broken: true } },
    { identifier: "alert", name: "Alert", if: "on_failure", needs: ["deliver"], input: {} },
    { identifier: "after", name: "Thank", input: { of: "${{ deliver.output }}" } },
  ];
}

describe.skipIf(!isThere)("clusters on the operator page", () => {
  it("show their members by what they wait for, with states, times, retries and parts", async () => {
    const { page, complaints } = await openBoard();
    const id = await runCluster(diamond("diamond"));
    const graph = await graphOf(page, id);
    const text = (name: string) => nodeOf(graph, name).textContent();
    await expect.poll(() => text("Deliver"), { timeout: 10_000 }).toContain("failed");
    expect(await text("Deliver")).toContain("disk_on_fire");
    expect(await text("Fetch documents")).toMatch(/completed.*\d+ ms.*2 retries|completed.*\d s.*2 retries/);
    await expect.poll(() => text("Infer")).toContain("6 of 6");
    await expect.poll(() => text("Alert")).toContain("completed");
    expect(await text("Thank")).toContain("skipped");
    expect(await text("Count tokens")).toContain("pending");
    expect(await text("Join")).toContain("waiting");
    await shoot(page, "cluster-running");
    const rows = await graph
      .locator(".graph-row")
      .evaluateAll((all) =>
        all.map((row) => [...row.querySelectorAll(".node-name")].map((name) => name.textContent)),
      );
    expect(rows).toEqual([
      ["Fetch documents"],
      ["Parse", "Count tokens"],
      ["Join", "Infer", "Deliver"],
      ["Alert", "Thank"],
    ]);
    gateOf("diamond").open();
    await expect.poll(() => text("Join")).toContain("completed");
    await expect.poll(() => placeOf(page, "cluster", id).textContent()).toContain("8 of 8 members done");
    expect(complaints).toEqual([]);
  });

  it("have lines from box to box", async () => {
    const { page } = await openBoard();
    const id = await runCluster(diamond("lines"));
    const graph = await graphOf(page, id);
    await expect.poll(() => graph.locator("path").count()).toBe(8);
    for (const width of [1_280, 820, 360]) {
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(150);
      expect([width, await strayEnds(graph)]).toEqual([width, []]);
    }
    gateOf("lines").open();
  });

  it("of sixty members and more stay within the page, and in sight", async () => {
    const { page, complaints } = await openBoard();
    const wide = Array.from({ length: 48 }, (_, index) => ({
      ...{
        identifier: `part-${index}`,
        name: `Part ${index} of a name that goes on for longer than its box has room`,
      },
      input: { of: "${{ start.output }}" },
    }));
    const chain = Array.from({ length: 14 }, (_, index) => ({
      identifier: `link-${index}`,
      input: { of: index === 0 ? "${{ part-0.output }}" : `\${{ link-${index - 1}.output }}` },
    }));
    const id = await runCluster([{ identifier: "start", name: MARKUP }, ...wide, ...chain]);
    const graph = await graphOf(page, id);
    await expect.poll(() => graph.locator(".node").count()).toBe(63);
    await expect
      .poll(() => placeOf(page, "cluster", id).textContent(), { timeout: 20_000 })
      .toContain("63 of 63 members done");
    expect(await page.locator("#board img").count()).toBe(0);
    expect(await page.title()).toBe("perigee");
    for (const screen of SCREENS) {
      await fits(page, screen, "many");
      expect([screen.width, await cutTexts(graph)]).toEqual([screen.width, []]);
    }
    expect(complaints).toEqual([]);
  });

  it("are cancelled by keyboard", async () => {
    const { page, complaints } = await openBoard();
    const id = await runCluster([{ identifier: "hold", input: { gate: "never" } }, { identifier: "free" }]);
    const place = placeOf(page, "cluster", id);
    const summary = place.locator("summary");
    await summary.focus();
    const isOpen = async () => (await place.locator("details").getAttribute("open")) !== null;
    const before = await isOpen();
    await page.keyboard.press("Enter");
    expect(await isOpen()).toBe(!before);
    if (!before) await page.keyboard.press("Enter"); // open, its graph would be next; the first one of a page begins open
    expect(await isOpen()).toBe(false);
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Cancel");
    await page.waitForTimeout(1_500); // it is updated meanwhile, and keeps the focus
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    expect(await statusOf(`/v1/clusters/${id}`)).toBe("pending");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await expect.poll(() => statusOf(`/v1/clusters/${id}`), { timeout: 5_000 }).toBe("cancelled");
    await expect.poll(() => place.textContent()).toContain("cancelled");
    expect(await place.getByRole("button").count()).toBe(0);
    expect(complaints).toEqual([]);
  });
});

describe.skipIf(!isThere)("executions on the operator page", () => {
  it("show their state, progress, retries and error, and are cancelled", async () => {
    const { page, complaints } = await openBoard();
    const [done, failed, running, doomed] = [
      await execute({ failures: 1 }),
      await execute({ broken: true }),
      await execute({ gate: "never" }),
      await execute({ failures: 99 }),
    ];
    const text = (id: string) => placeOf(page, "execution", id).textContent();
    await expect.poll(() => text(done), { timeout: 10_000 }).toMatch(/red\/step.*completed.*took.*1 retry/);
    expect(await text(failed)).toMatch(/failed.*disk_on_fire/);
    expect(await text(running)).toMatch(/running.*3 of 8/);
    await expect.poll(() => text(doomed)).toMatch(/retrying.*\d retries|running.*\d retries/);
    for (const screen of SCREENS) await fits(page, screen, "satellites");
    await placeOf(page, "execution", running)
      .getByRole("button", { name: /^Cancel/ })
      .click();
    await shoot(page.getByRole("dialog"), "cancel-execution");
    await page.getByRole("button", { name: "Cancel it" }).click();
    await expect
      .poll(() => statusOf(`/v1/satellites/red/step/${running}`), { timeout: 5_000 })
      .toBe("cancelled");
    await expect.poll(() => text(running)).toContain("cancelled");
    await world.call("POST", `/v1/satellites/red/step/${doomed}/cancel/`);
    expect(complaints).toEqual([]);
  });
});

/** Ends of lines that lie on no edge of a box, to a pixel. */
async function strayEnds(graph: Locator): Promise<string[]> {
  return await graph.locator(".graph").evaluate((frame) => {
    const { left, top } = frame.getBoundingClientRect();
    const boxes = [...frame.querySelectorAll(".node")].map((node) => node.getBoundingClientRect());
    const isOnEdge = (x: number, y: number): boolean =>
      boxes.some(
        (box) =>
          x + left >= box.left - 1 &&
          x + left <= box.right + 1 &&
          (Math.abs(y + top - box.bottom) <= 1 || Math.abs(y + top - box.top) <= 1),
      );
    return [...frame.querySelectorAll("path")]
      .map((path) => path.getAttribute("d") ?? "")
      .filter((d) => {
        const numbers = d.match(/-?[\d.]+/g)?.map(Number) ?? [];
        const [x1 = -1, y1 = -1] = numbers;
        const [x2 = -1, y2 = -1] = numbers.slice(-2);
        return !isOnEdge(x1, y1) || !isOnEdge(x2, y2);
      });
  });
}

/** Texts of boxes that reach beyond their box. */
async function cutTexts(graph: Locator): Promise<string[]> {
  return await graph
    .locator(".node")
    .evaluateAll((nodes) =>
      nodes
        .filter(
          (node) => node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1,
        )
        .map((node) => node.textContent ?? ""),
    );
}
