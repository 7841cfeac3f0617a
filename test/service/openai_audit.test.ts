import { toFile } from "openai";
import { expect, it } from "vitest";
import { batchLines, ended, OpenaiWorld } from "./openai_world.ts";

it("leaves what a client of OpenAI's interface did in the audit log, under our ids", async () => {
  const world = new OpenaiWorld();
  const { client, close } = await world.start();
  try {
    const uploaded = await toFile(Buffer.from(batchLines(["a secret"])), "in.jsonl");
    const file = await client.files.create({ file: uploaded, purpose: "batch" });
    const batch = await client.batches.create({
      ...{ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" },
    });
    await client.batches.cancel(batch.id);
    const { output_file_id, error_file_id } = await ended(client, batch.id);
    const endFileId = output_file_id ?? error_file_id ?? "";
    await (await client.files.content(endFileId)).text();
    await client.files.delete(endFileId);
    await new Promise((resolve) => setTimeout(resolve, 20)); // the log is written after the answer
    const uuidOf = (id: string) => id.slice(5).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    const who = { project: "alpha", keyId: "alpha" };
    expect(world.noted).toEqual([
      { kind: "file.uploaded", ...who, fileId: uuidOf(file.id) },
      { kind: "task.created", ...who, taskId: batch.id },
      { kind: "task.cancelled", ...who, taskId: batch.id },
      { kind: "file.downloaded", ...who, fileId: uuidOf(endFileId) },
      { kind: "file.deleted", ...who, fileId: uuidOf(endFileId) },
    ]);
  } finally {
    await close();
    await world.remove();
  }
});
