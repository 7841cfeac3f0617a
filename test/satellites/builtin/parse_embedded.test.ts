import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { AllowList } from "../../../src/egress/address.ts";
import { parseWithDocling } from "../../../src/satellites/builtin/parse_with_docling/parse_with_docling.ts";
import type { ParseOptions } from "../../../src/satellites/builtin/parse_with_docling/run.ts";
import type { Files } from "../../../src/tasks/files/files.ts";
import type { JsonObject } from "../../../src/work/json.ts";
import { chunked, FileWorld, textOf } from "../../tasks/files.ts";
import { deflatedBlanks, deflatedZip, docx, paragraph, pdf, pdfBomb } from "./documents.ts";
import { type Attempt, attempt, failedAttempt } from "./one_attempt.ts";

const satellite = parseWithDocling();

async function world(documents: Readonly<Record<string, string | Uint8Array>>) {
  const files: Files = await new FileWorld().files();
  const references: JsonObject[] = [];
  for (const [name, bytes] of Object.entries(documents)) {
    const { id } = await files.put("one", { name, purpose: "user_data", chunks: chunked(bytes, 65_536) });
    references.push({ file_id: id, name });
  }
  return { files, references };
}

async function parsing(name: string, bytes: string | Uint8Array, input: object = {}): Promise<Attempt> {
  const { files, references } = await world({ [name]: bytes });
  return { input: { file: references[0], ...input }, config: {}, fileStore: files };
}

const parse = async (name: string, bytes: string | Uint8Array, input?: object) =>
  attempt(satellite, await parsing(name, bytes, input));
const failing = async (name: string, bytes: string | Uint8Array, options?: ParseOptions) =>
  failedAttempt(options === undefined ? satellite : parseWithDocling(options), await parsing(name, bytes));

const PDF = pdf(["A first line\nand a second", "On page two (with marks)"], "The Title");
const DOCX = docx(
  [
    paragraph("The heading", "Heading1"),
    paragraph("Some text &amp; more."),
    `<w:tbl><w:tr><w:tc>${paragraph("a")}</w:tc><w:tc>${paragraph("b|c")}</w:tc></w:tr><w:tr><w:tc>${paragraph("1")}</w:tc><w:tc>${paragraph("2")}</w:tc></w:tr></w:tbl>`,
  ].join(""),
);
const HTML = `<!doctype html><html><head><title>T</title><style>p{}</style></head><body><h1>Head</h1>
<p>Some <b>bold</b> <a href="https://example.com">link</a><script>alert(1)</script></p><ul><li>one</li><li>two</li></ul>
<table><thead><tr><th>x</th><th>y</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></body></html>`;

describe("the embedded engine", () => {
  it("reads the text of a PDF page by page, and says what read it", async () => {
    expect(await parse("a.pdf", PDF)).toEqual({
      name: "a.pdf",
      engine: "embedded",
      package: "unpdf",
      format: "markdown",
      text: "A first line\nand a second\n\nOn page two (with marks)",
      data: null,
      file: null,
      pages: 2,
      is_partial: false,
      pages_without_text: [],
    });
    expect(await parse("b.pdf", pdf(["", "One page", "", ""]))).toMatchObject({
      ...{ text: "One page", pages: 4, is_partial: true, pages_without_text: [1, 3, 4] },
    });
    expect(await parse("a.pdf", PDF, { format: "json" })).toMatchObject({
      text: null,
      data: {
        kind: "pdf",
        title: "The Title",
        pages: [
          { number: 1, text: "A first line\nand a second" },
          { number: 2, text: "On page two (with marks)" },
        ],
      },
    });
  });

  it("reads a docx with its headings and tables", async () => {
    expect(await parse("a.docx", DOCX)).toMatchObject({
      package: "mammoth",
      text: "# The heading\n\nSome text & more.\n\n| a | b\\|c |\n| --- | --- |\n| 1 | 2 |",
    });
    expect(await parse("a.docx", DOCX, { format: "text" })).toMatchObject({
      text: expect.stringMatching(/^The heading\n\nSome text & more\./),
    });
  });

  it("reads HTML without what is not shown", async () => {
    expect(await parse("a.html", HTML)).toMatchObject({
      package: "turndown",
      text: "# Head\n\nSome **bold** [link](https://example.com)\n\n-   one\n-   two\n\n| x | y |\n| --- | --- |\n| 1 | 2 |",
    });
    const { text } = await parse("a.html", HTML, { format: "text" });
    expect(text).toBe("Head\n\nSome bold link\n\none\n\ntwo\n\nx\ty\n1\t2");
    expect(await parse("a.html", HTML, { format: "json" })).toMatchObject({
      data: { kind: "html", title: "T", markdown: expect.stringContaining("# Head") },
    });
  });

  it("reads CSV as a table or as rows, with any separator", async () => {
    const csv = 'name;n;n\r\n"Müller; Jr";1;2\r\nx|y;3\r\n';
    expect(await parse("a.csv", csv)).toMatchObject({
      package: "csv-parse",
      text: "| name | n | n_3 |\n| --- | --- | --- |\n| Müller; Jr | 1 | 2 |\n| x\\|y | 3 |  |",
    });
    expect(await parse("a.tsv", "__proto__\ta\n1\t2\n", { format: "json" })).toMatchObject({
      data: { columns: ["__proto__", "a"], rows: [JSON.parse('{"__proto__":"1","a":"2"}')] },
    });
  });

  it("takes text, Markdown and JSON as they are, in their encodings", async () => {
    expect(await parse("a.md", "# as *is*")).toMatchObject({ package: "perigee", text: "# as *is*" });
    expect(await parse("a.txt", Buffer.from("\ufeffwide", "utf16le"))).toMatchObject({ text: "wide" });
    expect(await parse("a.txt", Buffer.from("Größe", "latin1"))).toMatchObject({ text: "Größe" });
    expect(await parse("a.json", '{"a":[1]}', { format: "json" })).toMatchObject({
      data: { kind: "json", value: { a: [1] } },
    });
    const old = Buffer.from('<html><meta charset="windows-1251"><p>\xcf\xf0</p></html>', "latin1");
    expect(await parse("a.html", old)).toMatchObject({ text: "Пр" });
  });

  it("uses the bytes where a name lies", async () => {
    expect(await parse("a.txt", PDF)).toMatchObject({ package: "unpdf" });
    expect(await parse("a", HTML)).toMatchObject({ package: "turndown" });
  });

  it.each([
    ["a scanned PDF", "a.pdf", pdf(["", ""]), "no_text", "2 pages and no text"],
    ["a picture", "a.png", Buffer.from("89504e470d0a1a0a", "hex"), "unsupported_type", "docling server"],
    ["an old office file", "a.doc", Buffer.from("d0cf11e0a1b11ae1", "hex"), "unsupported_type", "docx"],
    [
      "a ZIP without a docx",
      "a.xlsx",
      deflatedZip("xl/workbook.xml", Buffer.from([3, 0]), 0),
      "unsupported_type",
      "xlsx",
    ],
    ["bytes that are not text", "a.bin", Buffer.from([1, 0, 2, 0]), "unsupported_type", "docling server"],
    ["a broken PDF", "a.pdf", "%PDF-1.7 but nothing more", "invalid_document", "PDF"],
    ["a broken docx", "a.docx", Buffer.from("PK\x03\x04 and then", "latin1"), "invalid_document", "ZIP"],
    [
      "an encrypted docx",
      "a.docx",
      deflatedZip("word/document.xml", Buffer.from([3, 0]), 0, 1),
      "encrypted",
      "",
    ],
    [
      "a docx of no XML",
      "a.docx",
      deflatedZip("word/document.xml", Buffer.from([3, 0]), 0),
      "invalid_document",
      "docx",
    ],
    ["broken JSON", "a.csv", `"${"x".repeat(2_000_000)}`, "invalid_document", "CSV"],
  ])("says what is wrong with %s", async (_what, name, bytes, code, text) => {
    const error = await failing(name, bytes);
    expect(error).toMatchObject({ failure: "permanent", code });
    expect(error.message).toContain(text);
  });
});

describe("hostile documents", () => {
  it("unpack no more of a docx than they may, for any claimed sizes", async () => {
    for (const claimed of [10, 0xffff_fff0]) {
      const bomb = deflatedZip("word/document.xml", deflatedBlanks(2_000), claimed);
      expect(bomb.length).toBeLessThan(8_000_000);
      expect(await failing("a.docx", bomb)).toMatchObject({ failure: "permanent", code: "too_complex" });
    }
  });

  it("do not take the process down with their memory", async () => {
    const before = process.memoryUsage().rss;
    const error = await failing("a.pdf", pdfBomb(3_000), { memoryMb: 400, timeoutMs: 20_000 });
    expect(error).toMatchObject({ code: "too_complex", message: expect.stringContaining("memory") });
    expect(process.memoryUsage().rss - before).toBeLessThan(300e6);
    expect(await parse("a.txt", "still here")).toMatchObject({ text: "still here" });
  });

  it("are ended when they take too long, and the next one is parsed", async () => {
    const options = { timeoutMs: 1_000, processes: 1 };
    const one = parseWithDocling(options);
    const slow = `<p>${"<b><i>".repeat(150_000)}</p>`;
    const { files, references } = await world({ "slow.html": slow, "a.txt": "fine" });
    const [first, second] = references;
    const hard = failedAttempt(one, { input: { file: first }, config: {}, fileStore: files });
    const easy = attempt(one, { input: { file: second }, config: {}, fileStore: files });
    expect(await hard).toMatchObject({ failure: "permanent", code: "too_complex" });
    expect(await easy).toMatchObject({ text: "fine" });
  });

  it("end with the execution", async () => {
    const stop = new AbortController();
    const given = await parsing("slow.html", `<p>${"<b><i>".repeat(150_000)}</p>`);
    const parsed = attempt(satellite, { ...given, signal: stop.signal });
    setTimeout(() => stop.abort(new Error("cancelled")), 300);
    await expect(parsed).rejects.toThrow("cancelled");
  });
});

describe("the result", () => {
  it("is a file where it is long, the same in a repeat, and where it is wanted as one", async () => {
    const long = "# Long\n\n".repeat(80_000);
    const given = await parsing("a.md", long);
    const output = (await attempt(satellite, given)) as { readonly file: { readonly file_id: string } };
    expect(output).toMatchObject({
      text: null,
      file: { name: "a.md.md", mime_type: "text/markdown; charset=utf-8" },
    });
    expect(await textOf((given.fileStore as Files).read("one", output.file.file_id))).toBe(long);
    expect(await attempt(satellite, given)).toEqual(output);
    expect(await parse("b.txt", "short", { as: "file", format: "text" })).toMatchObject({
      text: null,
      file: { bytes: 5, name: "b.txt.txt" },
    });
  });

  it("has one entry for each of several documents, and errors for those that cannot be parsed", async () => {
    const { files, references } = await world({
      "a.pdf": PDF,
      "b.png": Buffer.from("89504e47", "hex"),
      "c.txt": "c",
    });
    const input = { files: [...references, { file_id: "none" }], format: "text" };
    const output = await attempt(satellite, { input, config: {}, fileStore: files });
    expect(output).toMatchObject({
      documents: [
        { name: "a.pdf", text: expect.stringContaining("first line") },
        { error: { code: "unsupported_type" } },
        { name: "c.txt", text: "c" },
        { error: { code: "file_not_found" } },
      ],
      failed: 2,
    });
    const only = { input: { files: [references[1]] }, config: {}, fileStore: files };
    expect(await failedAttempt(satellite, only)).toMatchObject({
      failure: "permanent",
      code: "nothing_parsed",
    });
  });

  it("can come from a URL, which is fetched through the guard at every redirect", async () => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(request.url ?? "");
      if (request.url === "/moved")
        return void response.writeHead(302, { location: "/docs/a%20b.html" }).end();
      if (request.url === "/away")
        return void response.writeHead(302, { location: "http://127.0.0.2:1/x" }).end();
      if (request.url === "/loop") return void response.writeHead(302, { location: "/loop" }).end();
      if (request.url === "/busy") return void response.writeHead(503).end();
      if (request.url === "/none") return void response.writeHead(404).end();
      response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end("<h1>Hi</h1>");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { files } = await world({});
    const given = (path: string): Attempt => ({
      input: { url: `${base}${path}` },
      config: {},
      fileStore: files,
      egress: { allow: new AllowList(["127.0.0.1"]) },
    });
    try {
      expect(await attempt(satellite, given("/moved"))).toMatchObject({ name: "a b.html", text: "# Hi" });
      for (const [path, failure, code] of [
        ["/away", "permanent", "blocked_destination"],
        ["/loop", "permanent", "fetch_failed"],
        ["/busy", "refused", "fetch_failed"],
        ["/none", "permanent", "fetch_failed"],
      ] as const)
        expect(await failedAttempt(satellite, given(path)), path).toMatchObject({ failure, code });
      expect(seen.filter((path) => path === "/loop")).toHaveLength(4);
    } finally {
      server.close();
    }
  });

  it("needs one document, or a list of them", async () => {
    for (const input of [{}, { url: "https://a.com", file: { file_id: "x" } }, { files: [] }])
      await expect(attempt(satellite, { input, config: {} })).rejects.toThrow("input.");
  });
});
