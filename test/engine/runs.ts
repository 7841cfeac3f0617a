/**
 * Runs of one engine each, and what tests of several files ask of them.
 */
import type { Summary } from "../../src/engine/items/progress.ts";
import { INPUT, mortal, OUTPUT, type World } from "./world.ts";

type Source = string | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** Runs to its end in an engine that is closed then. */
export async function finish(
  world: World,
  options: object = { out: OUTPUT },
  source: Source = INPUT,
): Promise<Summary> {
  const engine = await world.engine();
  const summary = await world.settle(engine.run(source, options).finished);
  await world.settle(engine.close());
  return summary;
}

/** The same of one that may fail: its summary or its error. */
export async function endOf(world: World, source: Source, options: object = {}): Promise<unknown> {
  const engine = await world.engine();
  const end = await failure(world, engine.run(source, { out: OUTPUT, ...options }).finished);
  await world.settle(engine.close());
  return end;
}

/** What a run fails with. */
export function failure(world: World, finished: Promise<unknown>): Promise<unknown> {
  return world.settle(finished.catch((reason: unknown) => reason));
}

/** A run whose process is killed after `liveMs`. */
export async function killedAfter(world: World, liveMs: number): Promise<void> {
  const process = mortal(world.clock);
  void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT }).finished;
  await world.clock.advance(liveMs);
  process.kill();
  world.kill();
}

/** What is left of runs in the data folder: figures of providers are for later ones. */
export function dataFiles(world: World): string[] {
  return world.disk.paths.filter((path) => path.startsWith("/data") && path !== "/data/learnt.json");
}

/** The most of these times that lie in any minute. */
export function mostInAMinute(atMs: readonly number[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < atMs.length; last += 1) {
    while ((atMs[last] as number) - (atMs[first] as number) >= 60_000) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
