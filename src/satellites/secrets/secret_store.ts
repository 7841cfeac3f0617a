/**
 * The secrets of projects as records: sealed values in the payload column, times beside them.
 *
 *   absent -> set (again and again) -> removed
 *
 * Limits: 64 KiB a value, 200 secrets a project.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { RecordStore, StoredRecord } from "../../store/records.ts";
import { NAME } from "../sdk/reference.ts";
import type { Secrets, SecretView } from "./secrets.ts";
import { openVault, type Vault, type VaultOptions } from "./vault.ts";

const COLLECTION = "secret";
const VALUE_BYTES_MAX = 64 * 1024;
const SECRETS_MAX = 200;
const PAGE = 100;

/** Over a store and a vault that stay the caller's to close. */
export function createSecrets(store: RecordStore, clock: Pick<Clock, "wallMs">, vault: Vault): Secrets {
  return new StoredSecrets(store, clock, vault);
}

/** With a vault of its own. Throws as `openVault`. */
export async function openSecrets(options: VaultOptions): Promise<Secrets> {
  return createSecrets(options.store, options.clock, await openVault(options));
}

class StoredSecrets implements Secrets {
  readonly #store: RecordStore;
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #vault: Vault;
  /** The last change that is under way: they count and keep times, so one follows another. */
  #changes: Promise<unknown> = Promise.resolve();

  constructor(store: RecordStore, clock: Pick<Clock, "wallMs">, vault: Vault) {
    this.#store = store;
    this.#clock = clock;
    this.#vault = vault;
  }

  async set(project: string, name: string, value: string): Promise<void> {
    checkName(name);
    checkValue(value);
    await this.#serially(async () => {
      const [store, clock, vault] = [this.#store, this.#clock, this.#vault];
      const before = await this.#find(project, name);
      if (before === undefined && (await this.list(project)).length >= SECRETS_MAX)
        throw new PerigeeError("too_many", `a project has at most ${SECRETS_MAX} secrets`);
      const nowWallMs = clock.wallMs();
      const place = { collection: COLLECTION, project, id: idOf(project, name) };
      const record: StoredRecord = {
        ...place,
        parent: "",
        createdWallMs: before?.createdWallMs ?? nowWallMs,
        body: JSON.stringify({ updatedWallMs: nowWallMs }),
        payload: vault.seal(place, value),
      };
      await store.change([{ kind: "put", record }]);
    });
  }

  async list(project: string): Promise<readonly SecretView[]> {
    const found: SecretView[] = [];
    let after: string | undefined;
    for (;;) {
      const query = { collection: COLLECTION, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await this.#store.records(project, query);
      found.push(...page.map(viewOf));
      after = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async remove(project: string, name: string): Promise<void> {
    await this.#serially(async () => {
      const found = await this.#find(project, name);
      if (found === undefined) throw new PerigeeError("not_found", "no such secret");
      await this.#store.change([{ kind: "delete", collection: COLLECTION, id: found.id }]);
    });
  }

  async reveal(project: string, name: string): Promise<string | undefined> {
    const found = await this.#find(project, name);
    return found === undefined ? undefined : this.#vault.open(found);
  }

  async #find(project: string, name: string): Promise<StoredRecord | undefined> {
    if (!NAME.test(name)) return undefined;
    return await this.#store.record(project, COLLECTION, idOf(project, name));
  }

  #serially<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#changes.then(work);
    this.#changes = result.catch(() => undefined);
    return result;
  }
}

/** Neither has a slash, so no two share an id. */
function idOf(project: string, name: string): string {
  return `${project}/${name}`;
}

function viewOf({ id, project, createdWallMs, body }: StoredRecord): SecretView {
  const { updatedWallMs } = JSON.parse(body) as { readonly updatedWallMs: number }; // written above
  return { name: id.slice(project.length + 1), createdWallMs, updatedWallMs };
}

function checkName(name: string): void {
  if (NAME.test(name)) return;
  throw new PerigeeError(
    "invalid_request",
    'the name of a secret is a-z, 0-9 and "-", at most 63 characters, not beginning with "-"',
    { details: { param: "name" } },
  );
}

/** Says what is wrong with a value without showing it. */
function checkValue(value: string): void {
  const bytes = Buffer.from(value, "utf8");
  if (bytes.length > VALUE_BYTES_MAX)
    throw new PerigeeError("too_large", `a secret has at most ${VALUE_BYTES_MAX} bytes, got ${bytes.length}`);
  if (value === "" || bytes.toString("utf8") !== value)
    throw new PerigeeError("invalid_request", "the value of a secret is a text of at least one character", {
      details: { param: "value" },
    });
}
