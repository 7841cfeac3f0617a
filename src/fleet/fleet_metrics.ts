/**
 * Metrics of a worker: those of the fleet as it sees it, then those of its partitions, each sample with the label `partition`. Metrics of the
 * process (`process_*`, `nodejs_*`) appear once, from the first partition.
 *
 * Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { LimitPool, PoolAnswers, PoolDraw } from "../limits/shared/limit_pool.ts";
import { plain } from "../service/http/errors.ts";
import type { FleetState } from "../service/operate/fleet_state.ts";
import { isFromThisMachine, type RenderedMetrics } from "../service/operate/metrics_routes.ts";
import { refuse, refusesUnread } from "./router.ts";

const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";
const NOTHING_THERE = plain(404, "not_found", "there is nothing at this address");
const OF_PROCESS = /^(process|nodejs)_/;

/** One for a worker. */
export class FleetMetrics {
  readonly #state: () => FleetState;
  readonly #hasPort: boolean;
  readonly #parts = new Map<number, () => Promise<RenderedMetrics>>();
  readonly #draws = { granted: 0, nothing: 0, failed: 0 };

  /** `hasPort`: metrics have a separate port, so the public one does not serve them. */
  constructor(state: () => FleetState, hasPort: boolean) {
    this.#state = state;
    this.#hasPort = hasPort;
  }

  /** Adds the metrics of a partition that was opened. */
  add(part: number, render: () => Promise<RenderedMetrics>): void {
    this.#parts.set(part, render);
  }

  /** Removes those of a partition that was closed. */
  remove(part: number): void {
    this.#parts.delete(part);
  }

  /** The same pool; its draws are counted, each quota and each limit on places for itself. */
  counting(pool: LimitPool): LimitPool {
    const draw = async (asked: PoolDraw): Promise<PoolAnswers> => {
      const count = asked.blocks.length + asked.places.length;
      try {
        const answers = await pool.draw(asked);
        const blocks = answers.blocks.filter(({ units }) => units > 0).length;
        const granted = blocks + answers.places.filter(({ places }) => places > 0).length;
        this.#draws.granted += granted;
        this.#draws.nothing += count - granted;
        return answers;
      } catch (error) {
        this.#draws.failed += count;
        throw error;
      }
    };
    return { draw };
  }

  async render(): Promise<RenderedMetrics> {
    const texts = new Map<number, string>();
    for (const [part, render] of this.#parts) texts.set(part, (await render()).text);
    return { contentType: CONTENT_TYPE, text: `${this.#ofFleet()}${mergedMetrics(texts)}` };
  }

  /** Answers a `GET /metrics` of the public port: only to this machine, and not through a proxy on it. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const isServed = !this.#hasPort && isFromThisMachine(request) && request.method === "GET";
    if (!isServed) return refuse(response, NOTHING_THERE);
    if (refusesUnread(request, response)) return;
    const { contentType, text } = await this.render();
    response.writeHead(200, { "content-type": contentType, "cache-control": "no-store" }).end(text);
  }

  #ofFleet(): string {
    const { workers, free, leaseLeftMs } = this.#state();
    const leaving = workers.filter(({ isLeaving }) => isLeaving).length;
    const owned = workers.reduce((sum, { parts }) => sum + parts.length, 0);
    const drawn = Object.entries(this.#draws).map(
      ([outcome, count]) => [`outcome="${outcome}"`, count] as const,
    );
    return [
      family("perigee_fleet_workers", "gauge", "Workers of the fleet that live.", [
        ['state="working"', workers.length - leaving],
        ['state="leaving"', leaving],
      ]),
      family("perigee_fleet_partitions", "gauge", "Partitions of the fleet, by whether a worker has them.", [
        ['state="owned"', owned],
        ['state="free"', free.length],
      ]),
      family("perigee_fleet_partitions_open", "gauge", "Partitions that this process has opened.", [
        ["", this.#parts.size],
      ]),
      family(
        "perigee_fleet_lease_seconds",
        "gauge",
        "Until the lease of this worker ends, if it is not renewed.",
        [["", leaseLeftMs / 1_000]],
      ),
      family(
        "perigee_fleet_limit_draws_total",
        "counter",
        "Draws from limits that all workers share.",
        drawn,
      ),
    ].join("");
  }
}

function family(
  name: string,
  type: string,
  help: string,
  samples: readonly (readonly [labels: string, value: number])[],
): string {
  const lines = samples.map(([labels, value]) => `${name}${labels === "" ? "" : `{${labels}}`} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

/** Merges the texts of all partitions: each family once, its samples one partition after another. */
export function mergedMetrics(texts: ReadonlyMap<number, string>): string {
  const families = new Map<string, { comments: string; samples: string; readonly firstPart: number }>();
  for (const [part, text] of texts) {
    let name = "";
    for (const line of text.split("\n").filter((one) => one !== "")) {
      name = /^# HELP (\S+)/.exec(line)?.[1] ?? name;
      const family = families.get(name) ?? { comments: "", samples: "", firstPart: part };
      families.set(name, family);
      if (line.startsWith("#")) {
        if (family.firstPart === part) family.comments += `${line}\n`;
      } else if (!OF_PROCESS.test(name)) family.samples += `${labelled(line, part)}\n`;
      else if (family.firstPart === part) family.samples += `${line}\n`;
    }
  }
  return [...families.values()].map(({ comments, samples }) => comments + samples).join("");
}

/** A sample with `partition` as its first label. */
function labelled(sample: string, part: number): string {
  const end = sample.search(/[{ ]/);
  const [name, label, rest] = [sample.slice(0, end), `partition="${part}"`, sample.slice(end)];
  if (rest.startsWith("{}")) return `${name}{${label}${rest.slice(1)}`;
  return rest.startsWith("{") ? `${name}{${label},${rest.slice(1)}` : `${name}{${label}}${rest}`;
}
