/**
 * What requests leave in the audit log: with an answer of 2xx on a route that names an event, and
 * with each one that was refused without a valid key; before the answer leaves.
 *
 * The id is that of the route's first parameter, or what the handler set as `request.audited` where it makes one.
 */
import type { Audit } from "../../store/audit/audit_log.ts";
import type { Caller } from "./caller.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "./fastify.ts";

export function registerAudit(app: FastifyInstance, audit: Audit | undefined): void {
  app.decorateRequest("audited", undefined);
  if (audit === undefined) return;
  app.addHook("onSend", (request, reply, _payload, done) => {
    const isKeyless = (request.caller as Caller | undefined) === undefined;
    if (isKeyless && [401, 429].includes(reply.statusCode)) audit.note({ kind: "login.failed" });
    else if (reply.statusCode >= 200 && reply.statusCode < 300 && !isReplay(reply)) noteEvent(audit, request);
    done();
  });
}

/** What an `Idempotency-Key` has found again was noted when it was made. */
function isReplay(reply: FastifyReply): boolean {
  return reply.hasHeader("idempotent-replayed");
}

function noteEvent(audit: Audit, request: FastifyRequest): void {
  const kind = request.routeOptions.config.event;
  if (kind === undefined || request.method === "HEAD") return;
  const { caller, audited } = request;
  const id = audited?.id ?? firstParameter(request);
  const who = {
    project: audited?.project ?? caller.project,
    keyId: (caller as Caller | undefined)?.keyId,
  };
  switch (kind) {
    case "file.uploaded":
    case "file.downloaded":
    case "file.deleted":
      audit.note({ kind, ...who, fileId: id });
      return;
    case "webhook.created":
    case "webhook.changed":
    case "webhook.rotated":
    case "webhook.deleted":
      audit.note({ kind, ...who, webhookId: id });
      return;
    case "secret.set":
    case "secret.removed":
      audit.note({ kind, ...who, secret: id });
      return;
    case "satellite.put":
    case "satellite.removed":
    case "satellite.verified":
    case "satellite.approved":
    case "satellite.disabled":
    case "satellite.enabled":
      audit.note({ kind, ...who, satellite: id });
      return;
    case "satellite.run":
    case "execution.cancelled":
      audit.note({ kind, ...who, executionId: id });
      return;
    case "cluster.submitted":
    case "cluster.cancelled":
      audit.note({ kind, ...who, clusterId: id });
      return;
    default:
      audit.note({ kind, ...who, taskId: id });
  }
}

function firstParameter({ params }: FastifyRequest): string {
  const [value] = Object.values(typeof params === "object" && params !== null ? params : {});
  return String(value);
}
