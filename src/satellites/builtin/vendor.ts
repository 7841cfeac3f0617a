/**
 * The satellites of perigee (interface 2.10), in the namespace `perigee`.
 */
import type { SatelliteTerms } from "../../engine/config/config_options.ts";
import type { AnySatellite } from "../sdk/satellite.ts";
import { batchInference } from "./batch_inference/batch_inference.ts";
import { callWebhook } from "./call_webhook/call_webhook.ts";
import { forwardLogs } from "./forward_logs/forward_logs.ts";
import { getFiles } from "./get_files/get_files.ts";
import { moveFile } from "./move_file/move_file.ts";
import { parseWithDocling } from "./parse_with_docling/parse_with_docling.ts";
import { sendAlert } from "./send_alert/send_alert.ts";
import { sendEmail } from "./send_email/send_email.ts";

/** In the order of the catalogue. */
export function vendorSatellites(terms: SatelliteTerms = {}): readonly AnySatellite[] {
  const { models = {}, roots = {}, opendal = {}, mailPorts = [] } = terms;
  const stores = { roots, opendal };
  const deepseek = "deepseek-r1-distrill-llama-70b";
  return [
    batchInference({
      name: deepseek,
      description:
        "Batch inference with a distilled reasoning model of 70 billion parameters: a prompt, a list of prompts, or a file of them.",
      model: models[deepseek],
    }),
    getFiles(stores),
    parseWithDocling(),
    callWebhook(),
    forwardLogs(),
    moveFile(stores),
    sendAlert(),
    sendEmail({ ports: mailPorts }),
  ];
}
