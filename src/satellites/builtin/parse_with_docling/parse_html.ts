/**
 * HTML to Markdown or plain text. The only import of turndown. Runs in the process that parses.
 *
 * Scripts, styles and what is not shown are left out; nothing is loaded. Tables become Markdown's, with the first row as head.
 */
import type TurndownService from "turndown";
import { tableRow } from "./parse_table.ts";
import type { DocumentFormat, ParsedDocument } from "./parsed_document.ts";

const LEFT_OUT = ["script", "style", "noscript", "template", "iframe", "object", "embed", "title"] as const;

/** JSON has the title beside the Markdown. */
export async function parseHtml(html: string, format: DocumentFormat): Promise<ParsedDocument> {
  if (format === "text") return { ok: true, text: await toText(html), package: "turndown" };
  const markdown = await toMarkdown(html);
  const title = /<title[^>]{0,200}>([^<]{1,500})<\/title>/i.exec(html)?.[1]?.trim() ?? null;
  const text = format === "json" ? JSON.stringify({ kind: "html", title, markdown }) : markdown;
  return { ok: true, text, package: "turndown" };
}

/** Tables, headings, lists and links; scripts and styles go. */
export async function toMarkdown(html: string): Promise<string> {
  const service = await openService();
  service.addRule("cell", {
    filter: ["th", "td"],
    replacement: (content, node) => tableCell(content, isFirst(node as unknown as MarkupNode)), // of turndown's own parser
  });
  service.addRule("row", {
    filter: "tr",
    replacement: (content, node) => {
      const row = node as unknown as MarkupNode; // as above
      return `${content} |\n${isHead(row) ? `${ruleOf(row)}\n` : ""}`;
    },
  });
  service.addRule("table", { filter: "table", replacement: (content) => `\n\n${content.trim()}\n\n` });
  return service.turndown(html).trim();
}

/** Without marks: what Markdown would put in front of or around words is left away. */
async function toText(html: string): Promise<string> {
  const service = await openService();
  service.escape = (text) => text;
  service.addRule("inline", {
    filter: ["a", "em", "i", "strong", "b", "code", "del", "s", "u"],
    replacement: (content) => content,
  });
  service.addRule("block", {
    filter: ["h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "li"],
    replacement: (content) => `\n\n${content.trim()}\n\n`,
  });
  service.addRule("cell", { filter: ["th", "td"], replacement: (content) => `${content.trim()}\t` });
  service.addRule("row", { filter: "tr", replacement: (content) => `${content.trim()}\n` });
  service.addRule("rule", { filter: ["hr", "img"], replacement: () => "" });
  return service
    .turndown(html)
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

async function openService(): Promise<TurndownService> {
  const { default: Service } = await import("turndown");
  const service = new Service({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
  service.remove([...LEFT_OUT]);
  service.addRule("section", { filter: ["thead", "tbody", "tfoot"], replacement: (content) => content });
  return service;
}

/** What tables need of a node; the types of browsers are not here. */
interface MarkupNode {
  readonly nodeName: string;
  readonly parentNode: MarkupNode | null;
  readonly childNodes: ArrayLike<MarkupNode>;
}

function tableCell(content: string, isFirst: boolean): string {
  const cell = tableRow([content.trim()]).slice(2, -2);
  return `${isFirst ? "| " : " | "}${cell}`;
}

function isFirst(node: MarkupNode): boolean {
  return node.parentNode !== null && cellsOf(node.parentNode)[0] === node;
}

function cellsOf(row: MarkupNode): MarkupNode[] {
  return Array.from(row.childNodes).filter(({ nodeName }) => nodeName === "TH" || nodeName === "TD");
}

/** The first row of its table, in whichever part of it. */
function isHead(row: MarkupNode): boolean {
  const part = row.parentNode;
  const table = part?.nodeName === "TABLE" ? part : part?.parentNode;
  return table !== null && table !== undefined && firstRow(table) === row;
}

function firstRow(node: MarkupNode): MarkupNode | undefined {
  for (const child of Array.from(node.childNodes)) {
    if (child.nodeName === "TR") return child;
    const isPart = child.nodeName === "THEAD" || child.nodeName === "TBODY" || child.nodeName === "TFOOT";
    const found = isPart ? firstRow(child) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

function ruleOf(row: MarkupNode): string {
  return tableRow(cellsOf(row).map(() => "---"));
}
