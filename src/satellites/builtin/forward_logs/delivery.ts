/**
 * One batch to its receiver: encoded, packed, sent, and the answer read.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { errorOf, send } from "../exchange/exchange.ts";
import type { HttpLogConfig, LogConfig, SyslogConfig } from "./config.ts";
import { datadog } from "./datadog.ts";
import { elasticsearch } from "./elasticsearch.ts";
import { loki } from "./loki.ts";
import { newRelic } from "./new_relic.ts";
import { otlp } from "./otlp.ts";
import {
  ALL_TAKEN,
  type BatchBounds,
  type HttpLogReceiver,
  MIB,
  type Numbered,
  type Verdict,
} from "./receiver.ts";
import { splunk } from "./splunk.ts";
import { syslogFrame } from "./syslog.ts";
import { sendFrames } from "./syslog_connection.ts";

const pack = promisify(gzip);

type Call = Pick<SatelliteCall, "http" | "signal" | "clock" | "executionId">;

/** A receiver as `forward-logs` sees it, of any protocol. */
export interface LogDelivery {
  readonly bounds: BatchBounds;
  /** Throws `SatelliteError`. */
  send(batch: readonly Numbered[]): Promise<Verdict>;
}

/** Bounds are the receiver's unless the config sets them. */
export function deliveryTo(config: LogConfig, call: Call): LogDelivery {
  const { batch, timeout_ms: timeoutMs } = config;
  const plain = config.receiver === "syslog" ? toSyslog(config, call) : toHttp(config, timeoutMs, call);
  const { entries, bytes, messageBytes } = plain.bounds;
  return {
    ...plain,
    bounds: { entries: batch.entries ?? entries, bytes: batch.bytes ?? bytes, messageBytes },
  };
}

function toSyslog(config: SyslogConfig, call: Call): LogDelivery {
  return {
    bounds: { entries: 1_000, bytes: MIB, messageBytes: 8_000 },
    async send(batch) {
      await sendFrames(
        call,
        batch.map(({ entry }) => syslogFrame(entry, config)),
        config,
      );
      return ALL_TAKEN;
    },
  };
}

function toHttp(config: HttpLogConfig, timeoutMs: number, call: Call): LogDelivery {
  const receiver = receiverOf(config, call.executionId);
  const { bounds, answerBytesMax } = receiver;
  return {
    bounds,
    async send(batch) {
      const { body, headers, ...request } = receiver.encode(batch);
      const packed = config.gzip
        ? { headers: { ...headers, "content-encoding": "gzip" }, body: await pack(body) }
        : { headers, body };
      const options = { timeoutMs, ...(answerBytesMax === undefined ? {} : { answerBytesMax }) };
      const response = await send(call, { ...request, ...packed }, options);
      const error = errorOf(response, {
        wallMs: call.clock.wallMs(),
        reason: receiver.reason?.(response),
        ...(receiver.failureOf === undefined ? {} : { failure: receiver.failureOf(response.status) }),
      });
      if (error !== undefined) throw error;
      const verdict = receiver.read(response, batch.length);
      if (verdict !== undefined) return verdict;
      throw new SatelliteError("ambiguous", "unreadable_answer", "the receiver's answer cannot be read");
    },
  };
}

function receiverOf(config: HttpLogConfig, executionId: string): HttpLogReceiver {
  switch (config.receiver) {
    case "loki":
      return loki(config);
    case "splunk":
      return splunk(config, executionId);
    case "elasticsearch":
    case "opensearch":
      return elasticsearch(config);
    case "datadog":
      return datadog(config);
    case "new_relic":
      return newRelic(config);
    case "otlp":
      return otlp(config);
  }
}
