/**
 * The table of the README: its command writes what is shown there.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { commandIn } from "../cli/command.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const readme = readFileSync(join(ROOT, "README.md"), "utf8");

it("the README's table is what its command writes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-readme-"));
  const [, words = ""] = /dist\/cli\/main\.js (run docs\/examples\/tables\/.*) --out /.exec(readme) ?? [];
  const out = join(folder, "out.csv");
  const { code } = await commandIn(ROOT, [...words.split(" "), "--out", out], {
    env: { XDG_STATE_HOME: folder },
  });
  expect(code).toBe(0);
  expect(readme).toContain(`\`\`\`\n${readFileSync(out, "utf8")}\`\`\``);
  const [table = "", prompt = ""] = ["reviews.csv", "prompt.md"].map((name) =>
    readFileSync(join(ROOT, "docs/examples/tables", name), "utf8"),
  );
  expect(readme).toContain(`\`\`\`\n${table.split("\n").slice(0, 2).join("\n")}`);
  expect(readme).toContain(`\`\`\`\n${prompt}\`\`\``);
  rmSync(folder, { recursive: true, force: true });
});
