import { expect, it } from "vitest";
import { ProjectHomes } from "../../src/fleet/project_homes.ts";
import type { PgResult } from "../../src/store/postgres/pg_session.ts";

it("links without a key keep one statement waiting, however many there are, and are answered all together", async () => {
  const asked: { readonly names: readonly string[]; readonly answer: (result: PgResult) => void }[] = [];
  const homes = new ProjectHomes(
    (_sql, names) => new Promise((answer) => asked.push({ names: names as readonly string[], answer })), // as the class passes them
  );
  const answerNext = (): void => {
    const { names, answer } = asked.at(-1) ?? { names: [], answer: () => undefined };
    const rows = names.map((project) => ({ project, part: Number(project.slice(1)) }));
    answer({ rows, count: rows.length });
  };
  const first = homes.claimed("p1");
  await expect.poll(() => asked.length).toBe(1);
  const others = Array.from({ length: 200 }, (_, item) => homes.claimed(`p${100 + item}`));
  expect(await homes.claimed("not a project")).toBeUndefined();
  expect(asked).toHaveLength(1);
  answerNext();
  expect(await first).toBe(1);
  await expect.poll(() => asked.length).toBe(2);
  answerNext();
  const found = await Promise.all(others);
  expect(found.filter((part) => part !== undefined)).toEqual(
    Array.from({ length: 64 }, (_, item) => 100 + item),
  );
  expect([asked.length, homes.known("p1")]).toEqual([2, 1]);
});
