/**
 * What axe-core finds wrong with a page for people who do not see it, or see it badly: all its rules but those marked experimental.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const require = createRequire(import.meta.url);
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** After two frames, once no colour fades any more: axe would measure a colour on its way. */
const SETTLED = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))).then(() =>
  Promise.all(document.getAnimations().filter((one) => one.effect.getComputedTiming().iterations !== Infinity).map((one) => one.finished.catch(() => undefined))))`;

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** A line for each violation, with the elements; those within `except` are not looked at. */
export async function violations(page: Page, except: readonly string[] = []): Promise<readonly string[]> {
  await page.evaluate(SETTLED);
  await page.evaluate(`if (window.axe === undefined) { ${AXE} }`);
  const context = JSON.stringify({ exclude: except.map((selector) => [selector]) });
  // Only what is wrong crosses to this process, and only of that axe describes every element.
  const found = (await page.evaluate(
    `window.axe.run(${context}, { resultTypes: ["violations"] }).then(({ violations }) => violations)`,
  )) as readonly Violation[];
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}
