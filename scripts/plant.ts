/**
 * A test of the tests: applies each planted bug of test/planted to a copy of the tree, one at a time, and runs the tests that its
 * header names: `npm run build && npm run plant [-- NAME ...]`
 *
 *   copied --patch--> planted --a test fails within 60 s, and its file is green without the patch--> found
 *                     planted --none does----------------------------------------------------------> survived, exit code 1
 *
 * A patch begins with its header (what is wrong, its class, the tests), and applies to the tree as it is: a patch that no longer
 * does fails test/planted.test.ts. Tests run from the sources; with `Build: yes` the copy is built first, for threads and the command.
 */
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { type Planted, readPlanted } from "../test/planted/planted.ts";

const ROOT = join(import.meta.dirname, "..");
const FOUND_WITHIN_MS = 60_000;
const CONTROL_MS = 300_000;

interface TestReport {
  readonly numTotalTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

interface Verdict {
  readonly isGreen: boolean;
  /** The first test that failed, or why none did. */
  readonly words: string;
  /** The file of that test. */
  readonly file?: string;
  readonly tookMs: number;
}

const names = process.argv.slice(2);
const planted = readPlanted().filter(({ name }) => names.length === 0 || names.includes(name));
if (planted.length === 0) throw new Error(`no planted bug is called ${names.join(" or ")}`);
const greenFiles = new Set<string>();
let control: string | undefined;
const folder = mkdtempSync(join(tmpdir(), "perigee-planted-"));
try {
  process.exitCode = await plantAll();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function plantAll(): Promise<number> {
  let survivors = 0;
  for (const one of planted) {
    const verdict = await plant(one).catch((error: unknown) => {
      throw new Error(`${one.name} cannot be tried`, { cause: error });
    });
    if (verdict.isGreen) survivors += 1;
    const seconds = (verdict.tookMs / 1_000).toFixed(0).padStart(3);
    console.log(
      `${verdict.isGreen ? "SURVIVED" : "found"} ${seconds} s  ${one.name} (${one.kind})  ${verdict.words}`,
    );
  }
  console.log(`${planted.length - survivors} of ${planted.length} planted bugs are found`);
  return survivors === 0 ? 0 : 1;
}

async function plant(bug: Planted): Promise<Verdict> {
  const tree = copyTree(bug.name);
  try {
    execFileSync("git", ["apply", bug.path], { cwd: tree, env: { ...process.env, GIT_DIR: "/nonexistent" } });
    if (bug.needsBuild) execFileSync("npm", ["run", "--silent", "build"], { cwd: tree, stdio: "ignore" });
    const verdict = await runTests(tree, bug.tests, FOUND_WITHIN_MS);
    if (verdict.file !== undefined) await expectGreen(relative(tree, verdict.file));
    return verdict;
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
}

/** Throws if the tests of a file fail without a planted bug. */
async function expectGreen(file: string): Promise<void> {
  if (greenFiles.has(file)) return;
  control ??= copyTree("control");
  const { isGreen, words } = await runTests(control, [file], CONTROL_MS);
  if (!isGreen) throw new Error(`${file} is not green without a planted bug: ${words}`);
  greenFiles.add(file);
}

function copyTree(name: string): string {
  const tree = join(folder, name);
  const isCopied = (path: string): boolean =>
    !/\/(node_modules|\.git|bench)(\/|$)/.test(path.slice(ROOT.length));
  cpSync(ROOT, tree, { recursive: true, filter: isCopied });
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  return tree;
}

/** Green: tests were run and none failed, nor took too long. */
function runTests(tree: string, tests: readonly string[], withinMs: number): Promise<Verdict> {
  const begunMs = performance.now();
  const report = join(tree, "planted.json");
  const vitest = join(tree, "node_modules/vitest/vitest.mjs");
  const child = spawn(
    process.execPath,
    [vitest, "run", ...tests, "--bail=1", "--reporter=json", `--outputFile=${report}`],
    { cwd: tree, stdio: "ignore", detached: true },
  );
  const timer = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, "SIGKILL"), withinMs);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const tookMs = performance.now() - begunMs;
      if (signal !== null)
        resolve({ isGreen: true, words: `no test failed within ${withinMs / 1_000} s`, tookMs });
      else
        resolve({ ...verdictOf(JSON.parse(readFileSync(report, "utf8")) as TestReport, code === 0), tookMs });
    });
  });
}

function verdictOf(report: TestReport, isGreen: boolean): Omit<Verdict, "tookMs"> {
  for (const { name, message, assertionResults } of report.testResults) {
    const failed = assertionResults.find(({ status }) => status === "failed");
    if (failed !== undefined) return { isGreen: false, words: failed.fullName, file: name };
    // A file that cannot even be loaded shows a patch that does not compile, not a bug that was found.
    if (message !== "" && assertionResults.length === 0) throw new Error(`${name}: ${message}`);
  }
  if (report.numTotalTests === 0) throw new Error("no test was run");
  return { isGreen, words: isGreen ? "every test passes" : "a test failed" };
}
