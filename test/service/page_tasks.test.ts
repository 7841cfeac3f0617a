/**
 * What the operator page does with tasks, as a browser shows it: when they are done, one in full, an error, a new one.
 */
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { violations } from "./accessible.ts";
import { enterKey, fits, isThere, MARKUP, openBrowser, openPage, SCREENS } from "./browser.ts";
import { openPageWorld, type PageWorld } from "./page_world.ts";

let world: PageWorld;
let browser: Browser;

beforeAll(async () => {
  if (!isThere) return;
  browser = await openBrowser();
  world = await openPageWorld({ scopes: ["infer:read", "infer:write", "files:read", "files:write"] });
}, 60_000);

afterAll(async () => {
  await browser?.close();
  await world?.close();
});

const item = (input: string, more: object = {}) => ({ model: "demo:quick", input, sla: 60, ...more });

async function board() {
  const opened = await openPage(browser, world.url);
  await enterKey(opened.page);
  await opened.page.getByRole("heading", { name: "Tasks" }).waitFor();
  return opened;
}

/** In both schemes, and on each screen. */
async function isUsable(page: Page, name: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violations(page)).toEqual([]);
  }
  for (const screen of SCREENS) await fits(page, screen, name);
  await page.setViewportSize({ width: 1_280, height: 900 });
}

async function download(page: Page, button: string): Promise<readonly { readonly key: string }[]> {
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: button }).click();
  const text = readFileSync(await (await saved).path(), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { readonly key: string });
}

describe.skipIf(!isThere)("the operator page and tasks", () => {
  it("says first when all work will be done and what it will have cost, then the same of each task", async () => {
    const { page, complaints } = await board();
    const { task_id: id } = await world.call(
      "POST",
      "/v0/infer/",
      Array.from({ length: 3_000 }, (_, index) =>
        item(`Question ${index}`, { metadata: { task: "Nightly" } }),
      ),
    );
    const text = (selector: string) => page.locator(selector).textContent();
    await expect.poll(() => text("#eta"), { timeout: 15_000 }).toMatch(/^In \d+ (s|min)$/);
    await expect.poll(() => text("#eta-note")).toMatch(/^at .+ items of 1 open task$/);
    await expect.poll(() => text("#cost-note"), { timeout: 10_000 }).toMatch(/^so far, \$\d.* expected$/);
    const row = page.getByRole("row").filter({ hasText: String(id).slice(-8) });
    await expect.poll(() => row.textContent(), { timeout: 10_000 }).toMatch(/In \d+ (s|min)/);
    await row.getByRole("button", { name: "Nightly" }).waitFor({ timeout: 15_000 });
    const first = await page.evaluate("document.querySelector('#board section').className");
    expect(first).toContain("outlook");
    await isUsable(page, "tasks");
    await world.call("POST", `/v0/infer/task/${id}/cancel`);
    expect(complaints).toEqual([]);
  }, 60_000);

  it("shows a task in full, downloads its failed lines and runs them again, by code or all", async () => {
    const { page, complaints } = await board();
    const metadata = { name: MARKUP };
    await world.call("POST", "/v0/infer/", [item("Hello", { metadata }), item("[[refuse]] secret words")]);
    await page.getByRole("button", { name: MARKUP }).click({ timeout: 15_000 });
    const panel = page.locator("#task-panel");
    const lines = panel.locator("#failed-lines li");
    await lines.first().waitFor();
    const text = (await panel.textContent()) ?? "";
    for (const part of [
      "Answered1",
      "Failed1",
      "Modelsdemo:quick",
      "invalid_request",
      "HTTP 400",
      "Answers took",
    ])
      expect(text).toContain(part);
    expect(text).not.toContain("secret words");
    expect(await page.title()).toBe("perigee");
    await isUsable(page, "task");
    expect(await download(page, "Download failed lines")).toHaveLength(1);
    expect(await download(page, "Download answers")).toHaveLength(2);
    await panel.getByRole("button", { name: "Retry failed lines" }).click();
    await panel.getByText(/No .*run/i).waitFor(); // what was refused is not retryable
    await panel.getByRole("button", { name: "Retry these with invalid_request" }).click();
    await panel.getByText("1 line runs again.").waitFor();
    await page.keyboard.press("Escape");
    expect(await panel.isVisible()).toBe(false);
    expect(complaints).toEqual([]);
  }, 60_000);

  it("shows the lines of an error, and leads from there to their task", async () => {
    const { page, complaints } = await board();
    await world.call("POST", "/v0/infer/", [
      item("Hello", { metadata: { job: "Broken" } }),
      item("[[refuse]]"),
    ]);
    await page.getByRole("button", { name: "Broken" }).waitFor({ timeout: 15_000 });
    await page.locator("#errors").getByRole("button", { name: "invalid_request" }).click();
    await page.locator("#code-tasks li").first().waitFor();
    await isUsable(page, "code");
    await page.locator("#code-tasks").getByRole("button", { name: "Broken" }).click();
    expect(await page.locator("#task-heading").textContent()).toBe("Broken");
    expect(complaints).toEqual([]);
  }, 60_000);

  it("quotes and submits a prompt, and quotes it again after an edit", async () => {
    const { page, complaints } = await board();
    await page.getByRole("button", { name: "New task" }).click();
    await page.getByLabel("Model, as").fill("demo:sky");
    await page.getByLabel("Prompt;").fill("Why is the sky blue?");
    const go = page.locator("#submit-go");
    await go.click();
    await page.locator("#quote").getByText("Billed").waitFor();
    await isUsable(page, "submit");
    expect(await go.textContent()).toBe("Submit");
    await page.getByLabel("Done within").fill("30");
    expect([await go.textContent(), await page.locator("#quote").textContent()]).toEqual(["Quote", ""]);
    await go.click();
    await page.locator("#quote").getByText("Billed").waitFor();
    await go.click();
    await page.getByRole("button", { name: "demo:sky" }).waitFor({ timeout: 15_000 });
    expect(complaints).toEqual([]);
  }, 60_000);

  it("quotes the time and the bill of the sla that was entered, not those of realtime", async () => {
    const { page } = await board();
    const bill = (usd: number) => ({ billed_usd: usd, billed_usd_low: usd / 2, billed_usd_high: usd * 2 });
    const finish = (minutes: number) => ({
      expected_seconds: minutes * 60,
      early_seconds: minutes * 30,
      late_seconds: minutes * 120,
    });
    const slas = [60, 1_440].map((minutes) => ({
      ...{ sla_minutes: minutes, price_factor: 0.5, usd: 0.5, is_feasible: true },
      ...bill(minutes === 60 ? 0.8 : 0.4),
      finish: finish(minutes === 60 ? 50 : 240),
    }));
    const quote = { items: 3, basis: "ceiling", rejected_lines: 0, unpriced_models: [], unpriced_items: 0 };
    await page.route("**/v0/quote", (route) =>
      route.fulfill({ json: { ...quote, ...bill(0.9), slas, finish: finish(1), earliest_sla: 1 } }),
    );
    await page.getByRole("button", { name: "New task" }).click();
    await page.getByLabel("Model, as").fill("demo:quick");
    await page.getByLabel("Prompt;").fill("Hello");
    await page.getByLabel("Done within").fill("1440");
    await page.locator("#submit-go").click();
    await page.locator("#quote").getByText("in 4 h (2 h to 8 h)").waitFor();
    expect(await page.locator("#quote").textContent()).toContain("$0.4000 expected, $0.2000 to $0.8000");
  }, 60_000);

  it("shows no amount for work of which no price is known", async () => {
    const { page } = await board();
    await page.getByRole("button", { name: "New task" }).click();
    await page.getByLabel("Model, as").fill("gone:unpriced");
    await page.getByLabel("Prompt;").fill("Hello");
    await page.locator("#submit-go").click();
    const warning = "No price is known for gone:unpriced: the sums are without 1 of the 1 items.";
    await page.locator("#quote").getByText(warning).waitFor();
    expect(await page.locator("#quote dd", { hasText: "not known" }).count()).toBe(2);
  }, 60_000);

  it("submits a file of lines under its name, and says which of them would fail", async () => {
    const { page } = await board();
    await page.getByRole("button", { name: "New task" }).click();
    await page.getByLabel("A file of lines").check();
    const text = `${JSON.stringify({ key: "a", model: "demo:quick", input: "Hello" })}\n{"key":"b"}\n`;
    const file = { name: "täglich 1.jsonl", mimeType: "application/jsonl", buffer: Buffer.from(text) };
    await page.getByLabel("JSONL file").setInputFiles(file);
    await page.locator("#submit-go").click();
    await page
      .locator("#quote")
      .getByText("1 of the lines would fail before anything is sent. Line 2")
      .waitFor();
    await page.locator("#submit-go").click();
    await page.getByRole("button", { name: "täglich 1.jsonl" }).waitFor({ timeout: 15_000 });
  }, 60_000);

  it("makes lines of a table and a prompt, and refuses a column that the table does not have", async () => {
    const { page, complaints } = await board();
    await page.getByRole("button", { name: "New task" }).click();
    await page.getByLabel("A table and a prompt").check();
    const table = 'id,text\nx1,"Hello, ""you"""\nx2,"two\nlines"\n';
    const file = { name: "rows.csv", mimeType: "text/csv", buffer: Buffer.from(table) };
    await page.getByLabel("CSV or TSV").setInputFiles(file);
    await page.getByText("Columns: {{id}}, {{text}}").waitFor();
    await page.getByLabel("Model, as").fill("demo:quick");
    await page.getByLabel("Prompt;").fill("Say {{name}}");
    const go = page.locator("#submit-go");
    await go.click();
    await page
      .getByText("names {{name}}, but the table has no such column. Its columns: id, text.")
      .waitFor();
    await page.getByLabel("Prompt;").fill("Say {{ text }} of {{id}}");
    await page.getByLabel("Key of a line").selectOption("id");
    await go.click();
    await page.locator("#quote").getByText("Billed").waitFor();
    await go.click();
    await page.getByRole("button", { name: "rows.csv" }).waitFor({ timeout: 15_000 });
    const { files } = await world.call("GET", "/v0/files/?limit=1");
    const [{ file_id: id } = { file_id: "" }] = files as { file_id: string }[];
    const lines = (await world.text(`/v0/files/${id}/content`)).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { key: "x1", model: "demo:quick", input: 'Say Hello, "you" of x1' },
      { key: "x2", model: "demo:quick", input: "Say two\nlines of x2" },
    ]);
    expect(complaints).toEqual([]);
  }, 60_000);
});
