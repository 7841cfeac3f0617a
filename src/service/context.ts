/**
 * What routes share: given once to every route file as `register...Routes(app, context)`.
 */
import type { Clock } from "../clock.ts";
import type { OpenedSatellites } from "../clusters/open.ts";
import type { Disk } from "../disk.ts";
import type { ResolvedCache } from "../engine/config/cache_terms.ts";
import type { EventSecrets } from "../engine/config/event_secrets.ts";
import type { Engine } from "../engine/engine.ts";
import type { Store } from "../store/store.ts";
import type { Files } from "../tasks/files/files.ts";
import type { Tasks } from "../tasks/shapes/tasks.ts";
import type { ServiceTransfers } from "./files/transfers.ts";
import type { ServedModels } from "./front/served_models.ts";
import type { Idempotency } from "./http/idempotency.ts";
import type { BodyBounds } from "./http/infer_body.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

export interface ServiceContext {
  readonly clock: Clock;
  readonly disk: Disk;
  readonly store: Store;
  readonly engine: Engine;
  readonly tasks: Tasks;
  readonly files: Files;
  readonly satellites: Omit<OpenedSatellites, "close">;
  readonly webhooks: Webhooks;
  readonly idempotency: Idempotency;
  /** What proves events of providers; absent: none are taken. */
  readonly eventSecrets?: ReadonlyMap<string, EventSecrets>;
  readonly transfers: ServiceTransfers;
  readonly dataDir: string;
  /** What calls of the front may name, and the sla of `service_tier: flex`, in minutes. */
  readonly front: { readonly models: ServedModels; readonly defaultSlaMinutes?: number | undefined };
  /** That callers may ask for; absent: none. */
  readonly cache?: ResolvedCache | undefined;
  /** How large a request may be; absent: as the defaults are. */
  readonly requestBounds?: BodyBounds | undefined;
  /** Under which the service is reached from outside, without a slash at the end: the beginning of `output_url`. */
  readonly publicUrl: () => string;
  /** Whether nothing more is sent, because the service closes or hands its work over. */
  readonly isStopping: () => boolean;
}
