/**
 * The operator page, as a browser shows it.
 */
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  enterKey,
  fits,
  isThere,
  MARKUP,
  MISSING,
  openBrowser,
  openPage,
  SCREENS,
  shoot,
} from "./browser.ts";
import { KEY, openPageWorld, type PageWorld } from "./page_world.ts";

let world: PageWorld;
let browser: Browser;

beforeAll(async () => {
  if (!isThere) return;
  browser = await openBrowser();
  world = await openPageWorld();
}, 60_000);

afterAll(async () => {
  await browser?.close();
  await world?.close();
});

function items(count: number, more: object = {}): object[] {
  return Array.from({ length: count }, (_, index) => ({
    model: "demo:quick",
    input: index % 40 === 39 ? "[[refuse]]" : `Question ${index}`,
    sla: 60,
    ...more,
  }));
}

async function submit(requests: object[]): Promise<string> {
  const { task_id: id } = await world.call("POST", "/v0/infer/", requests);
  return String(id);
}

async function isCancelled(id: string): Promise<unknown> {
  return (await world.call("GET", `/v0/infer/task/${id}?limit=1`))["is_cancelled"];
}

function rowOf(page: Page, id: string) {
  return page.getByRole("row").filter({ hasText: id.slice(-8) });
}

it("has a browser to be shown in, or says that it was not tested", () => {
  if (!isThere) process.stderr.write(`\nTHE OPERATOR PAGE WAS NOT TESTED: ${MISSING}\n\n`);
  expect(isThere || process.env["TEST_BROWSER"] !== "required", MISSING).toBe(true);
});

describe.skipIf(!isThere)("the operator page", () => {
  it("asks for the key once, and says when it is not accepted", async () => {
    const { page } = await openPage(browser, world.url);
    await shoot(page, "key");
    await enterKey(page, "pgk_live_wrong");
    await expect.poll(() => page.getByRole("alert").first().textContent()).toContain("not accepted");
    await enterKey(page);
    await page.getByRole("heading", { name: "Tasks" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Tasks" }).waitFor();
    expect(page.url()).toBe(world.url);
    for (const section of ["#clusters-section", "#executions-section"]) // not for a key without their scope
      expect(await page.locator(section).isVisible()).toBe(false);
    await page.getByRole("button", { name: "Forget key" }).click();
    await page.getByLabel("API key").waitFor();
    expect(await page.evaluate("sessionStorage.length")).toBe(0);
  });

  it("shows tasks as they go on, cancels one and downloads answers, without a complaint", async () => {
    const { page, complaints } = await openPage(browser, world.url);
    await enterKey(page);
    const short = await submit(items(80, { sla: 30 }));
    const long = await submit(items(4_000));
    const progress = rowOf(page, long).getByRole("progressbar");
    const settled = async () => Number(await progress.getAttribute("aria-valuenow"));
    await expect.poll(settled, { timeout: 10_000 }).toBeGreaterThan(0);
    const before = await settled();
    await expect.poll(settled, { timeout: 5_000 }).toBeGreaterThan(before);
    await expect.poll(() => rowOf(page, short).textContent(), { timeout: 10_000 }).toContain("some errors");
    await shoot(page, "running");

    await rowOf(page, long)
      .getByRole("button", { name: /^Cancel/ })
      .click();
    await shoot(page.getByRole("dialog"), "cancel");
    await page.getByRole("button", { name: "Cancel it" }).click();
    await expect.poll(() => rowOf(page, long).textContent(), { timeout: 10_000 }).toContain("Cancelled");
    expect(await isCancelled(long)).toBe(true);

    const download = page.waitForEvent("download");
    await rowOf(page, short)
      .getByRole("button", { name: /^Download/ })
      .click();
    const saved = await download;
    expect(saved.suggestedFilename()).toBe(`perigee-${short.slice(-8)}.jsonl`);
    expect(
      readFileSync(await saved.path(), "utf8")
        .trimEnd()
        .split("\n"),
    ).toHaveLength(80);
    expect(await page.getByRole("meter").count()).toBeGreaterThan(1);
    expect(await page.locator("#errors").textContent()).toContain("invalid_request");
    expect(complaints).toEqual([]);
  });

  it("shows names that hold markup as they are", async () => {
    const { page, complaints } = await openPage(browser, world.url);
    await enterKey(page);
    await submit(items(2, { model: `demo:${MARKUP}` }));
    await expect
      .poll(() => page.locator("#lanes").textContent(), { timeout: 10_000 })
      .toContain(`demo:${MARKUP}`);
    expect(await page.locator("#board img").count()).toBe(0);
    expect(await page.title()).toBe("perigee");
    expect(complaints).toEqual([]);
  });

  it("says what holds items of a task, and how the last request failed", async () => {
    const { page } = await openPage(browser, world.url);
    await enterKey(page);
    const id = await submit(items(2, { model: "gone:m" }));
    await expect
      .poll(() => rowOf(page, id).textContent(), { timeout: 10_000 })
      .toMatch(/2 held: outage of gone \(connection_failed\) since \d/);
  });

  it("says of an item that is larger than a limit when it is sent", async () => {
    const { page } = await openPage(browser, world.url);
    await enterKey(page);
    await submit(items(2, { model: "small:m", generation_config: { max_output_tokens: 3_000 } }));
    await expect
      .poll(() => page.locator("#lanes").textContent(), { timeout: 10_000 })
      .toMatch(/An item of 3,0\d\d tokens is larger than the limit of 1,000: it is sent by itself in \d/);
  });

  it("fits a phone, a tablet and a desk, light and dark", async () => {
    const { page, complaints } = await openPage(browser, world.url);
    await enterKey(page);
    const id = await submit(items(1_000));
    await expect.poll(() => rowOf(page, id).textContent(), { timeout: 10_000 }).toContain("Running");
    for (const screen of SCREENS) {
      await fits(page, screen);
      expect(await rowOf(page, id).getByRole("cell").count()).toBe(8);
    }
    expect(complaints).toEqual([]);
    await world.call("POST", `/v0/infer/task/${id}/cancel`);
  });

  it("can be used with only a keyboard", async () => {
    const { page } = await openPage(browser, world.url);
    await page.keyboard.type(KEY); // the field has the focus
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Tasks" }).waitFor();
    const id = await submit(items(2_000));
    const cancel = rowOf(page, id).getByRole("button", { name: /^Cancel/ });
    await cancel.focus();
    await page.waitForTimeout(1_500); // rows are updated meanwhile, and keep the focus
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    expect(await isCancelled(id)).toBe(false);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await expect.poll(() => isCancelled(id), { timeout: 5_000 }).toBe(true);
  });

  it("shows 50 tasks a page", async () => {
    const ids: string[] = [];
    for (let index = 0; index < 60; index += 1) ids.push(await submit(items(1)));
    const { page } = await openPage(browser, world.url);
    await enterKey(page);
    await rowOf(page, ids.at(-1) ?? "").waitFor();
    expect(await page.locator("#task-rows tr").count()).toBe(50);
    await page.getByRole("button", { name: "Older" }).click();
    await rowOf(page, ids[0] ?? "").waitFor();
    expect(await page.getByText("Page 2").count()).toBe(1);
    await page.getByRole("button", { name: "Newer" }).click();
    await rowOf(page, ids.at(-1) ?? "").waitFor();
  });

  it("says when it has lost contact, comes back by itself, and asks again when its key is revoked", async () => {
    const { page } = await openPage(browser, world.url);
    const contact = () => page.locator("#contact").textContent();
    await enterKey(page);
    await expect.poll(contact).toContain("Live");
    await world.cut();
    await expect.poll(contact).toContain("Lost contact");
    await shoot(page, "lost");
    await world.mend();
    await expect.poll(contact, { timeout: 10_000 }).toContain("Live");
    world.isKeyValid = false;
    await expect
      .poll(() => page.getByRole("alert").first().textContent(), { timeout: 5_000 })
      .toContain("not accepted");
    world.isKeyValid = true;
  });
});

describe("the files of the operator page", () => {
  it("come with a policy that lets in nothing from elsewhere", async () => {
    const { fastify } = await import("fastify");
    const { registerPageRoutes } = await import("../../src/service/operate/page.ts");
    const app = fastify();
    registerPageRoutes(app);
    const page = await app.inject({ url: "/" });
    expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(page.headers["content-security-policy"]).toContain(
      "default-src 'none'; script-src 'self'; style-src 'self'",
    );
    expect(page.body).not.toMatch(/<script(?![^>]*src=)|\son\w+=|style=|https?:\/\/(?!www\.w3\.org)/);
    const named = [...page.body.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map(([, url]) => `/${url}`);
    expect(named).toHaveLength(4);
    for (const url of named) {
      const { statusCode, headers } = await app.inject({ url });
      expect([url, statusCode]).toEqual([url, 200]);
      const again = await app.inject({ url, headers: { "if-none-match": String(headers["etag"]) } });
      expect(again.statusCode).toBe(304);
    }
    expect((await app.inject({ url: "/page/../page.ts" })).statusCode).toBe(404);
  });

  it("are all served, and import nothing that is not", async () => {
    const { fastify } = await import("fastify");
    const { registerPageRoutes } = await import("../../src/service/operate/page.ts");
    const app = fastify();
    registerPageRoutes(app);
    for (const url of [
      "/page/app.js",
      "/page/chart.js",
      "/page/lanes.js",
      "/page/tasks.js",
      "/page/feed.js",
      "/page/satellites.js",
      "/page/graph.js",
    ]) {
      const { body } = await app.inject({ url });
      for (const [, name] of body.matchAll(/from "\.\/([\w.]+)"/g))
        expect([name, (await app.inject({ url: `/page/${name}` })).statusCode]).toEqual([name, 200]);
      expect(body).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/);
    }
  });
});
