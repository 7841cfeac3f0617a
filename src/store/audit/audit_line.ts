/**
 * The lines of the audit log: one event each, chained by hashes.
 *
 *   {"n":2,"at":"2026-01-01T00:00:00.000Z","event":"task.created",...,"prev":"<hash of line 1>","hash":"<hash>"}
 *   hash = SHA-256 of the line's text before `,"hash"`, in hexadecimal
 *
 * Only the fields below are written, so nothing of prompts, answers or keys can be. Limit: 200 characters each.
 *
 * Hot path: a line for each posted task, 3 us.
 */
import { hash } from "node:crypto";

/**
 * Who did it, or whose it was. `keyId` is absent where no key was used, as on the command line; `by` says that nobody asked
 * for it: it was older than such things are kept.
 */
interface Actor {
  readonly project: string;
  readonly keyId?: string | undefined;
  readonly by?: "retention" | undefined;
}

/** What is done with a file. */
export type FileEvent = "file.uploaded" | "file.downloaded" | "file.deleted";

/** What is done with a task. */
export type AuditedTaskEvent =
  | "task.created"
  | "task.cancelled"
  | "task.retried"
  | "task.deleted"
  | "task.downloaded";

/** What is done with a webhook, which decides where a project's events go. */
export type WebhookEvent = "webhook.created" | "webhook.changed" | "webhook.rotated" | "webhook.deleted";

/** What is done with a secret of satellites. */
export type SecretEvent = "secret.set" | "secret.removed";

/** What is done with a satellite itself, by its project and by the operator. */
export type CatalogueEvent =
  | "satellite.put"
  | "satellite.removed"
  | "satellite.verified"
  | "satellite.approved"
  | "satellite.disabled"
  | "satellite.enabled";

/** What is done with an execution of a satellite. */
export type ExecutionEvent = "satellite.run" | "execution.cancelled";
/** What is done with a run of a cluster; its executions leave no lines of their own. */
export type ClusterEvent = "cluster.submitted" | "cluster.cancelled";

/** What a request may leave in the log. */
export type RequestEvent =
  | FileEvent
  | AuditedTaskEvent
  | WebhookEvent
  | SecretEvent
  | CatalogueEvent
  | ExecutionEvent
  | ClusterEvent;

/** What is worth remembering for 13 months. */
export type AuditEvent =
  /** `keyId` is the key that was made or revoked. */
  | { readonly kind: "key.created" | "key.revoked"; readonly project: string; readonly keyId: string }
  /** A request without a valid key; counted, and written once a minute. */
  | { readonly kind: "login.failed" }
  | (Actor & { readonly kind: FileEvent; readonly fileId: string })
  | (Actor & { readonly kind: AuditedTaskEvent; readonly taskId: string })
  | (Actor & { readonly kind: WebhookEvent; readonly webhookId: string })
  /** `secret` is its name. */
  | (Actor & { readonly kind: SecretEvent; readonly secret: string })
  /** `satellite` is its reference; `project` the one that did it. */
  | (Actor & { readonly kind: CatalogueEvent; readonly satellite: string })
  | (Actor & { readonly kind: ExecutionEvent; readonly executionId: string })
  | (Actor & { readonly kind: ClusterEvent; readonly clusterId: string })
  /** `setting` is a name, never a value. */
  | { readonly kind: "config.changed"; readonly setting: string };

/** An event on its way to the disk. */
export interface TimedEvent {
  readonly wallMs: number;
  readonly kind: AuditEvent["kind"] | "events.lost";
  readonly project?: string | undefined;
  readonly keyId?: string | undefined;
  readonly fileId?: string | undefined;
  readonly taskId?: string | undefined;
  readonly webhookId?: string | undefined;
  readonly secret?: string | undefined;
  readonly satellite?: string | undefined;
  readonly executionId?: string | undefined;
  readonly clusterId?: string | undefined;
  readonly setting?: string | undefined;
  readonly by?: "retention" | undefined;
  /** How many of them, where they are counted. */
  readonly count?: number;
}

/** The state of a chain: what the next line refers to. */
export interface ChainEnd {
  /** Number of the last line. */
  readonly n: number;
  readonly hash: string;
}

/** Before the first line. */
export const CHAIN_START: ChainEnd = { n: 0, hash: "0".repeat(64) };

const FIELD_CHARACTERS_MAX = 200;
const LINE = /^(\{"n":(\d{1,15}),.*"prev":"([0-9a-f]{64})"),"hash":"([0-9a-f]{64})"\}$/;

/** The line of an event, without its line end, and the state of the chain after it. */
export function auditLine(
  event: TimedEvent,
  before: ChainEnd,
): { readonly text: string; readonly end: ChainEnd } {
  const n = before.n + 1;
  const { wallMs, kind, project, keyId, fileId, taskId, webhookId, secret, setting, by, count } = event;
  const { satellite, executionId, clusterId } = event;
  const hashed =
    `{"n":${n},"at":"${new Date(wallMs).toISOString()}","event":"${kind}"` +
    (count === undefined ? "" : `,"count":${count}`) +
    member("project", project) +
    member("key", keyId) +
    member("file", fileId) +
    member("task", taskId) +
    member("webhook", webhookId) +
    member("secret", secret) +
    member("satellite", satellite) +
    member("execution", executionId) +
    member("cluster", clusterId) +
    member("setting", setting) +
    member("by", by) +
    `,"prev":"${before.hash}"`;
  const hash = hashOf(hashed);
  return { text: `${hashed},"hash":"${hash}"}`, end: { n, hash } };
}

/** What a line says of its place in the chain; undefined when it does not hold what was written. */
export function readAuditLine(text: string): { readonly prev: string; readonly end: ChainEnd } | undefined {
  const [, hashed, n, prev, hash] = LINE.exec(text) ?? [];
  if (hashed === undefined || prev === undefined || hash === undefined || hashOf(hashed) !== hash)
    return undefined;
  return { prev, end: { n: Number(n), hash } };
}

function hashOf(text: string): string {
  return hash("sha256", text);
}

function member(name: string, text: string | undefined): string {
  return text === undefined ? "" : `,"${name}":${JSON.stringify(text.slice(0, FIELD_CHARACTERS_MAX))}`;
}
