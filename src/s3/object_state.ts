/** An object of S3 as it was found: apart from its reader, so that the types of the package need no SDK of S3. */
export interface ObjectState {
  readonly sizeBytes: number;
  /** Another one when the content may be another. */
  readonly version: string;
}
