/**
 * The satellites that come with perigee (interface 2.10), in the namespace `perigee`.
 */
import type { SatelliteTerms } from "../engine/config_options.ts";
import { batchInference } from "./builtin/batch_inference.ts";
import { callWebhook } from "./builtin/call_webhook.ts";
import { forwardLogs } from "./builtin/forward_logs.ts";
import { getFiles } from "./builtin/get_files.ts";
import { moveFile } from "./builtin/move_file.ts";
import { parseWithDocling } from "./builtin/parse_with_docling.ts";
import { sendAlert } from "./builtin/send_alert.ts";
import { sendEmail } from "./builtin/send_email.ts";
import type { AnySatellite } from "./satellite.ts";

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
