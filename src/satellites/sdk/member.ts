/**
 * The place of an execution in a run of a cluster.
 */
export interface Member {
  /** UUID of the run of the cluster. */
  readonly clusterId: string;
  /** The member's identifier in the declaration. */
  readonly identifier: string;
  /** With `each`: which element of the list, from 0. */
  readonly index?: number;
}
