/**
 * The operator page in a real browser, Debian's Chromium. With TEST_SCREENSHOTS, screenshots go to `test/service/screenshots`,
 * which git ignores: they take a quarter of the time, and nothing compares them.
 */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { KEY } from "./page_world.ts";

const CHROMIUM = process.env["PERIGEE_CHROMIUM"] ?? "/usr/bin/chromium";
const SCREENSHOTS = join(import.meta.dirname, "screenshots");

export const isThere: boolean = existsSync(CHROMIUM);
export const MISSING: string = `there is no browser at ${CHROMIUM}: install it (apt-get install chromium), or name another with PERIGEE_CHROMIUM`;

/** A text that would be run if the page took it for more than text. */
export const MARKUP = `<img src=x onerror="document.title='run'">`;

export interface Screen {
  readonly width: number;
  readonly height: number;
  readonly colorScheme: "light" | "dark";
}

/** A phone, a tablet and a desk. */
export const SCREENS: readonly Screen[] = [
  { width: 360, height: 740, colorScheme: "light" },
  { width: 360, height: 740, colorScheme: "dark" },
  { width: 820, height: 1_100, colorScheme: "light" },
  { width: 1_280, height: 900, colorScheme: "light" },
  { width: 1_280, height: 900, colorScheme: "dark" },
];

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
}

/** A page until the test is over, and all that its console and network have complained of. */
export async function openPage(
  browser: Browser,
  url: string,
): Promise<{ readonly page: Page; readonly complaints: readonly string[] }> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 } });
  onTestFinished(() => context.close());
  context.setDefaultTimeout(30_000); // that it hangs, not that it takes long beside other tests
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(url);
  return { page, complaints };
}

export async function enterKey(page: Page, key: string = KEY): Promise<void> {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Open" }).click();
}

/** Takes a screenshot of the whole page or a part of it, if they are wanted. */
export async function shoot(shown: Page | Locator, name: string): Promise<void> {
  if (process.env["TEST_SCREENSHOTS"] === undefined) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  const path = join(SCREENSHOTS, `${name}.png`);
  await ("goto" in shown ? shown.screenshot({ path, fullPage: true }) : shown.screenshot({ path }));
}

/** Shows the page on this screen, where nothing may be wider than it. */
export async function fits(page: Page, screen: Screen, name?: string): Promise<void> {
  const { width, height, colorScheme } = screen;
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme });
  await page.waitForTimeout(300);
  const shot = [...(name === undefined ? [] : [name]), width, colorScheme].join("-");
  await shoot(page, shot);
  const tooWide = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth");
  expect([width, colorScheme, tooWide]).toEqual([width, colorScheme, 0]);
}
