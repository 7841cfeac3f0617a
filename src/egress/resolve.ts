/**
 * Names to addresses: all A and AAAA records, queried again each time.
 *
 * Queries for public names go to the name servers directly, since the system's resolver takes one of four threads that files
 * need too, for as long as a name server likes. Local names, which only the operator's networks may have, go to
 * the system, which knows its hosts file.
 *
 * Limits: two tries of 2 s for public names.
 */
import { lookup, Resolver } from "node:dns/promises";

/** Resolves to every address, or to none when there is no such name; may reject. IPv4 first. */
export type Resolve = (name: string, options: { readonly isLocal: boolean }) => Promise<readonly string[]>;

const TRY_MS = 2_000;
const TRIES = 2;

export const resolveName: Resolve = async (name, { isLocal }) => {
  if (isLocal) return byFamily((await lookup(name, { all: true })).map(({ address }) => address));
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
};

function byFamily(addresses: readonly string[]): string[] {
  return [...addresses].sort((left, right) => Number(left.includes(":")) - Number(right.includes(":")));
}
