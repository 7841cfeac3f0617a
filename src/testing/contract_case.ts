/**
 * A contract as a list of cases, for any test runner: `for (const { name, run } of storeContract(make)) it(name, run)`.
 */

/** One promise of a port. `run` rejects with an `AssertionError` when it is not kept. */
export interface ContractCase {
  /** A sentence about behaviour. */
  readonly name: string;
  run(): Promise<void>;
}
