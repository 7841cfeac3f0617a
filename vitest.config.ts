import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    setupFiles: ["test/state_home.ts"],
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    maxWorkers: 2,
    expect: { poll: { timeout: 10_000 } }, // a page beside other load
  },
});
