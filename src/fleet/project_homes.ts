/**
 * The homes of projects. A project never moves to another partition, so a home that was read is kept in memory.
 *
 *   unknown -> home assigned: the partition with the fewest projects, of those that a living worker owns
 *
 * Limit: 100,000 projects in memory; the one that was read first is removed first.
 */
import type { PgQuery } from "../store/postgres/pg_session.ts";

const HOMES_MAX = 100_000;
/** The form of a project's name; links may claim anything. */
const PROJECT = /^[a-z0-9][a-z0-9-]{0,62}$/;
/** Names that are looked for at a time: beyond it a link is not found. */
const LOOKS_MAX = 64;

interface HomeRow {
  readonly project: string;
  readonly part: number;
}

export class ProjectHomes {
  readonly #query: PgQuery;
  readonly #known = new Map<string, number>();
  /** Names that links claim, and their look-up, which waits for the one under way. */
  #claims: { readonly names: Set<string>; readonly looked: Promise<void> } | undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(query: PgQuery) {
    this.#query = query;
  }

  /** The home of a project, from memory only. */
  known(project: string): number | undefined {
    return this.#known.get(project);
  }

  /** The home of a project whose key was accepted; assigns one if it has none. Undefined while no living worker owns a partition. */
  async assigned(project: string): Promise<number | undefined> {
    const found = await this.#found(project);
    if (found !== undefined) return found;
    await this.#query(
      `INSERT INTO perigee_projects (project, part)
       SELECT $1, part FROM perigee_partitions p
         JOIN perigee_workers w ON w.id = p.owner AND w.lease_until > clock_timestamp() AND NOT w.is_leaving
       WHERE p.in_fleet AND p.lease_until > clock_timestamp()
       ORDER BY (SELECT count(*) FROM perigee_projects h WHERE h.part = p.part), part LIMIT 1
       ON CONFLICT DO NOTHING`,
      project,
    );
    return this.#found(project);
  }

  /**
   * Of what a link claims, by anybody: never gives a home. All that are claimed while one statement is under way are found by the next one, so that
   * callers without a key never keep more than one waiting.
   */
  async claimed(text: string): Promise<number | undefined> {
    const known = this.#known.get(text);
    if (known !== undefined || !PROJECT.test(text)) return known;
    this.#claims ??= this.#nextClaims();
    const { names, looked } = this.#claims;
    if (names.size >= LOOKS_MAX) return undefined;
    names.add(text);
    await looked;
    return this.#known.get(text);
  }

  #nextClaims(): { readonly names: Set<string>; readonly looked: Promise<void> } {
    const names = new Set<string>();
    const looked = this.#looking
      .catch(() => undefined)
      .then(() => {
        this.#claims = undefined;
        return this.#look([...names]);
      });
    this.#looking = looked;
    return { names, looked };
  }

  async #found(project: string): Promise<number | undefined> {
    if (!this.#known.has(project)) await this.#look([project]);
    return this.#known.get(project);
  }

  async #look(projects: readonly string[]): Promise<void> {
    const { rows } = await this.#query(
      "SELECT project, part FROM perigee_projects WHERE project = ANY($1::text[])",
      projects,
    );
    for (const { project, part } of rows as readonly HomeRow[]) this.#known.set(project, part); // as selected
    while (this.#known.size > HOMES_MAX) {
      const [oldest] = this.#known.keys();
      this.#known.delete(oldest as string); // it is not empty
    }
  }
}
