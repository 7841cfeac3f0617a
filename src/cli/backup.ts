/**
 * `perigee backup` and `perigee restore`: a data folder as one file, and back.
 */
import { backupFolder, restoreFolder } from "../store/folder/backup.ts";
import { sizeText } from "./numbers.ts";

/** Works while a service is at work in the folder. */
export async function backup(dataDir: string, options: Record<string, unknown>): Promise<number> {
  const { to, json } = options as unknown as { readonly to: string; readonly json?: boolean }; // declared in main.ts
  const { files } = await backupFolder(dataDir, to);
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (json === true) process.stdout.write(`${JSON.stringify({ file: to, files: files.length, bytes })}\n`);
  else process.stderr.write(`${files.length} files, ${sizeText(bytes)}, are in ${to}\n`);
  return 0;
}

/** Into a folder that does not exist yet. */
export async function restore(file: string, options: Record<string, unknown>): Promise<number> {
  const { data, json } = options as unknown as { readonly data: string; readonly json?: boolean }; // declared in main.ts
  const { files } = await restoreFolder(file, data);
  const bytes = files.reduce((sum, each) => sum + each.bytes, 0);
  if (json === true) process.stdout.write(`${JSON.stringify({ data, files: files.length, bytes })}\n`);
  else
    process.stderr.write(
      `${files.length} files, ${sizeText(bytes)}, are in ${data}; perigee serve --data ${data} continues from it (stop the other service first: otherwise both send)\n`,
    );
  return 0;
}
