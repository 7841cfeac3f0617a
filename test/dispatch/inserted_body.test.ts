/**
 * The laws of bodies that name files: what is sent is the JSON with the content in place, of the stated length, or nothing.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InsertedBody, InsertFault, type InsertFiles } from "../../src/dispatch/inserts/inserted_body.ts";
import { type Insert, piecesOf, sealed } from "../../src/providers/inserts.ts";

/** Files by name, given in chunks of those sizes in turn. */
function filesOf(contents: Readonly<Record<string, Uint8Array>>, chunkBytes: readonly number[] = [7]) {
  const of = (source: Insert["source"]): Uint8Array => {
    const found = "path" in source ? contents[source.path] : undefined;
    if (found === undefined) throw new InsertFault("it does not exist", "file");
    return found;
  };
  const files: InsertFiles = {
    look: async (source) => ({ sizeBytes: of(source).byteLength, state: "same" }),
    async *read(source) {
      const bytes = of(source);
      for (let from = 0, turn = 0; from < bytes.byteLength; turn += 1) {
        const size = chunkBytes[turn % chunkBytes.length] as number;
        yield bytes.subarray(from, from + size);
        from += size;
      }
    },
    pause: () => Promise.resolve(),
  };
  return files;
}

const insert = (index: number, encoding: Insert["encoding"], path = `${index}`): Insert => ({
  marker: `<${index}>`,
  source: { path },
  mimeType: "image/png",
  encoding,
});

async function sent(body: InsertedBody): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body.source.chunks) pieces.push(piece);
  return Buffer.concat(pieces);
}

describe("a body that names files", () => {
  it("is sent as JSON with their content, in as many bytes as it states, however they are read", async () => {
    const file = fc.record({
      bytes: fc.uint8Array({ minLength: 1, maxLength: 400 }),
      text: fc.string({ unit: "binary", minLength: 1, maxLength: 100 }),
      isText: fc.boolean(),
    });
    const chunks = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.array(file, { maxLength: 4 }), chunks, fc.string(), async (given, sizes, other) => {
        const inserts = given.map(({ isText }, index) => insert(index, isText ? "text" : "base64"));
        const json = JSON.stringify({ other, files: inserts.map(({ marker }) => marker) });
        const contents = given.map(({ isText, text, bytes }) => (isText ? Buffer.from(text) : bytes));
        const files = filesOf(Object.fromEntries(contents.entries()), sizes);
        const body = await InsertedBody.open(Buffer.from(sealed(json, inserts)), files);
        const bytes = await sent(body);
        expect(bytes.byteLength).toBe(body.source.lengthBytes);
        expect(JSON.parse(bytes.toString())).toEqual({
          other,
          files: given.map(({ isText }, index) =>
            (contents[index] as Buffer | Uint8Array) && isText
              ? Buffer.from(contents[index] as Uint8Array).toString()
              : Buffer.from(contents[index] as Uint8Array).toString("base64"),
          ),
        });
      }),
    );
  });

  it("names no file that a request's own texts make up", () => {
    const seal = sealed('"<0>"', [insert(0, "base64", "/etc/passwd")]).slice(1, -1);
    const forged = Buffer.from(JSON.stringify({ text: seal, [seal]: [seal] }));
    expect(piecesOf(forged)).toEqual([forged]);
    expect(() => JSON.parse(`"${seal}"`)).toThrow(); // sent by mistake, it is refused
  });

  it("is not sent if a file is missing, or is no text where it is sent as one", async () => {
    const body = (encoding: Insert["encoding"]) => Buffer.from(sealed('"<0>"', [insert(0, encoding)]));
    await expect(InsertedBody.open(body("base64"), filesOf({}))).rejects.toThrow(
      new InsertFault("it does not exist", "file"),
    );
    const broken = filesOf({ 0: Uint8Array.of(0x61, 0xff) });
    await expect(InsertedBody.open(body("text"), broken)).rejects.toThrow(
      /is sent as text, and is not UTF-8/,
    );
  });

  it.each([
    ["shorter", 3],
    ["longer", 9],
    ["another of the same length", 6],
  ])("fails before its end if a file is %s when it is read", async (_, length) => {
    const contents: Record<string, Uint8Array> = { 0: new Uint8Array(6) };
    let looks = 0;
    const files: InsertFiles = {
      look: async (source) => {
        looks += 1;
        return { ...(await filesOf(contents).look(source)), state: `${looks}` };
      },
      read: (source, file) => filesOf(contents).read(source, file),
      pause: () => Promise.resolve(),
    };
    const body = await InsertedBody.open(Buffer.from(sealed('"<0>"', [insert(0, "base64")])), files);
    contents[0] = new Uint8Array(length).fill(1);
    await expect(sent(body)).rejects.toThrow(/the file "0" changed while it was read/);
    expect(body.fault?.blamed).toBe("change");
  });

  it("is checked once where what is read is what was found", async () => {
    let looks = 0;
    const { look, ...others } = filesOf({ 0: new Uint8Array(6) });
    const files: InsertFiles = {
      look: async (source) => {
        looks += 1;
        return { ...(await look(source)), isReadAsFound: true };
      },
      ...others,
    };
    const body = await InsertedBody.open(Buffer.from(sealed('"<0>"', [insert(0, "base64")])), files);
    expect(JSON.parse((await sent(body)).toString())).toBe(Buffer.alloc(6).toString("base64"));
    expect(looks).toBe(1);
  });
});
