/** Checks of declarations: what is refused, and where. */
import { describe, expect, it } from "vitest";
import type { ClusterIssue } from "../../src/clusters/cluster.ts";
import { checkDeclaration } from "../../src/clusters/declaration/check.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { ONE, resolver } from "./satellites.ts";

async function issuesOf(
  declaration: string | JsonObject,
  given: { input?: JsonObject; isBeta?: boolean } = {},
): Promise<readonly ClusterIssue[]> {
  const caller = { ...ONE, isBeta: given.isBeta ?? true };
  return (await checkDeclaration(declaration, { caller, resolver, input: given.input })).issues.list;
}

/** `line:column path: message` of each. */
async function told(declaration: string | JsonObject, given: Parameters<typeof issuesOf>[1] = {}) {
  return (await issuesOf(declaration, given)).map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  );
}

/** Members in YAML, two spaces in. */
const cluster = (...members: string[]): string =>
  `sla: 1h\ncluster:\n  satellites:\n${members.map((member) => `    - ${member.replaceAll("\n", "\n      ")}\n`).join("")}`;

const parse = (identifier: string, rest: string): string =>
  `uses: satellite/perigee/parse\nidentifier: ${identifier}\n${rest}`;

describe("checking a declaration", () => {
  it("accepts the shape of the interface, and every key besides", async () => {
    const text = `name: nightly
description: all of it
sla: 2h
cluster:
  satellites:
    - name: Parse
      uses: satellite/perigee/parse
      identifier: parse
      sla: 30m
      each: \${{ input.documents }}
      concurrency: 4
      config: { format: markdown, token: "Bearer \${{ secrets.docs }}" }
      input:
        text: "\${{ each.item }} is number \${{ each.index }}"
    - uses: satellite/one/own
      identifier: report
      if: on_failure
      needs: [parse]
      input: { error: "\${{ parse.error }}", run: "\${{ cluster.id }}" }
`;
    expect(await told(text, { input: { documents: ["a"] } })).toEqual([]);
  });

  it("tells all that is wrong at once, each with line and column", async () => {
    const text = `sla: soon
clusters: {}
cluster:
  satellites:
    - uses: perigee/parse
      identifier: a
      inputs: { text: x }
    - uses: satellite/perigee/parse
      identifier: a
      input: { text: 7, page: 1 }
      if: sometimes
      concurrency: 4
`;
    expect(await told(text)).toEqual([
      "1:6 sla: must be a duration from 1s to 30d, such as 90s, 30m, 24h or 7d",
      '2:1 clusters: unknown key "clusters": did you mean cluster?',
      '5:13 cluster.satellites[0].uses: must be satellite/<namespace>/<name>, got "perigee/parse"',
      '7:7 cluster.satellites[0].inputs: unknown key "inputs": did you mean input?',
      "9:19 cluster.satellites[1].identifier: another satellite has the identifier a",
      expect.stringMatching(/^10:22 cluster\.satellites\[1\]\.input\.text: /),
      '10:25 cluster.satellites[1].input.page: the satellite takes no "page"; did you mean pages?',
      "11:11 cluster.satellites[1].if: must be success, on_failure or always",
      "12:7 cluster.satellites[1].concurrency: needs each",
    ]);
  });

  it.each([
    ["nothing", "", "must be an object"],
    ["a text", "hello", "must be an object"],
    ["no members", "cluster: { satellites: [] }", "must be a list of at least one satellite"],
    ["no cluster", "sla: 1h", "is missing"],
    [
      "an identifier with a space",
      cluster("uses: satellite/perigee/anything\nidentifier: a b"),
      "must be letters",
    ],
    [
      "an identifier that references use",
      cluster("uses: satellite/perigee/anything\nidentifier: input"),
      "meaning",
    ],
    ["a missing identifier", cluster("uses: satellite/perigee/anything"), "identifier is missing"],
    [
      "an sla of 31 days",
      "sla: 31d\ncluster: { satellites: [{uses: satellite/one/own, identifier: a}] }",
      "30d",
    ],
  ])("refuses %s", async (_name, text, message) => {
    expect((await told(text)).join("\n")).toContain(message);
  });

  it("gives issues of objects without lines", async () => {
    const [issue] = await issuesOf({ cluster: { satellites: [{ identifier: "a" }] } });
    expect(issue).toEqual({ path: "cluster.satellites[0].uses", message: "uses is missing" });
  });
});

describe("references, when a declaration is checked,", () => {
  it("must name members that are there", async () => {
    const text = cluster(
      parse("first", "input: { text: x }"),
      parse("second", 'input: { text: "${{ frist.output.text }}" }'),
    );
    expect(await told(text)).toEqual([
      '9:22 cluster.satellites[1].input.text: no satellite has the identifier "frist"; did you mean first?',
    ]);
  });

  it("must name something that a member has", async () => {
    const text = cluster(
      parse("a", "input: { text: x }"),
      parse("b", 'input: { text: "${{ a.result }}" }'),
      parse("c", 'input: { text: "${{ a }}" }'),
      parse("d", 'input: { text: "${{ each.item }}" }'),
      parse("e", 'input: { text: "${{ a.output.txt }}" }'),
      parse("f", 'input: { text: "${{ a.output.files[0].name }}" }'),
      parse("g", 'input: { text: "${{ a.error.stack }}" }'),
    );
    expect((await issuesOf(text)).map(({ message }) => message)).toEqual([
      "a.result: a satellite has output, error and status",
      "a: a satellite has output, error and status",
      "each.item: this satellite has no each",
      'a.output.txt: there is no "txt"',
      'a.output.files[0].name: there is no "name"',
      'a.error.stack: there is no "stack"',
    ]);
  });

  it("must fit their places", async () => {
    const text = cluster(
      parse("a", "input: { text: x }"),
      parse("b", 'input: { text: "${{ a.output.files }}" }'),
      parse("c", 'input: { text: "see ${{ a.output.files }}" }'),
      parse("d", 'input: { text: x, tags: "${{ a.output.text }}" }'),
      parse("e", 'each: "${{ a.output.text }}"\ninput: { text: x }'),
      parse("f", 'input: { text: "${{ a.output.files[*].id }}" }'),
      parse("g", 'input: { text: "${{ a.output.text }}", tags: "${{ a.output.files[*].id }}" }'),
    );
    expect(await told(text)).toEqual([
      "9:22 cluster.satellites[1].input.text: a.output.files is a list: a text is expected",
      "12:22 cluster.satellites[2].input.text: a.output.files is a list: within a text it must be a text, a number, true or false",
      "15:31 cluster.satellites[3].input.tags: a.output.text is a text: a list is expected",
      "18:13 cluster.satellites[4].each: a.output.text is a text: each needs a list",
      "22:22 cluster.satellites[5].input.text: a.output.files[*].id is a list: a text is expected",
    ]);
  });

  it("to a member with each are to a list of its outputs", async () => {
    const fanOut = parse("a", "each: [1, 2]\ninput: { text: x }");
    const text = cluster(
      fanOut,
      parse("b", 'input: { text: "${{ a.output.text }}" }'),
      parse("c", 'input: { text: "${{ a.output[1].text }}", tags: "${{ a.output[*].text }}" }'),
      parse("d", 'each: "${{ a.output }}"\ninput: { text: "${{ each.item.text }}" }'),
    );
    expect((await issuesOf(text)).map(({ message }) => message)).toEqual([
      'a.output.text: there is no "text"',
    ]);
  });

  it("to the input are checked when the input is there", async () => {
    const text = cluster(parse("a", 'input: { text: "${{ input.document.text }}" }'));
    expect(await told(text)).toEqual([]);
    expect(await told(text, { input: { document: { text: "x" } } })).toEqual([]);
    expect((await issuesOf(text, { input: { document: {} } }))[0]?.message).toBe(
      'input.document.text: there is no "text"',
    );
  });

  it.each([
    ["is not closed", "${{ a.output", "a reference is not closed by }}"],
    ["calls something", "${{ env(a) }}", '"env(a)" is not a reference: write ${{ name.path }}'],
    ["adds something", "${{ 1 + 1 }}", '"1 + 1" is not a reference: write ${{ name.path }}'],
    [
      "mixes a secret with an output",
      "${{ secrets.a }} ${{ a.output.text }}",
      "a text with a secret takes no other references",
    ],
    [
      "mixes a secret with input",
      "${{ secrets.a }} ${{ input.b }}",
      "a text with a secret takes no other references",
    ],
    [
      "mixes a written secret with an output",
      "secret://a${{ a.output.text }}",
      "a text with a secret takes no other references",
    ],
    ["lets the name of a secret go on", "${{ secrets.a }}b", 'secrets.a must not be followed by "b"'],
    ["names no secret", "${{ secrets.A.b }}", "secrets.A.b: write secrets.name"],
  ])("are refused where one %s", async (_name, written, message) => {
    const text = cluster(parse("a", "input: { text: x }"), parse("b", `input: { text: '${written}' }`));
    expect((await told(text)).join()).toContain(message);
  });

  it("to secrets warn where they are not filled in, and the declaration can be run", async () => {
    const text = cluster(
      parse("a", "input: { text: 'see ${{ secrets.a }}' }\nconfig: { token: '${{ secrets.a }}' }"),
      parse("b", "input: { text: 'secret://b' }"),
    );
    const { issues, checked } = await checkDeclaration(text, { caller: ONE, resolver });
    expect(checked).toBeDefined();
    expect(issues.isEmpty).toBe(true);
    const message =
      "the secret is not inserted here, its reference is passed on as text: references are replaced only in config, and in input fields that the satellite's schema marks with x-secret";
    const warning = { message, severity: "warning", column: 22 };
    expect(issues.list).toEqual([
      { ...warning, line: 6, path: "cluster.satellites[0].input.text" },
      { ...warning, line: 10, path: "cluster.satellites[1].input.text" },
    ]);
  });

  it("take no secrets in each, whose elements are shown", async () => {
    const text = cluster('uses: satellite/one/own\nidentifier: a\neach: ["${{ secrets.a }}"]');
    expect((await told(text)).join()).toContain("each takes no secrets");
  });
});

describe("fault 103: satellites of others", () => {
  it.each([
    ["of another project", "satellite/two/foreign"],
    ["that does not exist", "satellite/perigee/nothing"],
    ["by a path", "satellite/one/../two/foreign"],
    ["in capitals", "satellite/TWO/foreign"],
    ["in letters that only look alike", "satellite/perigee/p\u0430rse"],
    ["with a slash more", "satellite/two/foreign/"],
  ])("are refused at their place: one %s", async (_name, uses) => {
    const [issue, ...more] = await issuesOf(cluster(`uses: ${uses}\nidentifier: a`));
    expect([issue?.line, issue?.column, issue?.path, more]).toEqual([
      4,
      13,
      "cluster.satellites[0].uses",
      [],
    ]);
  });

  it("have the same message whether they exist or not", async () => {
    const [foreign] = await issuesOf(cluster("uses: satellite/two/foreign\nidentifier: a"));
    const [none] = await issuesOf(cluster("uses: satellite/two/absent\nidentifier: a"));
    expect(foreign?.message.replace("foreign", "absent")).toBe(none?.message);
  });

  it("of the vendor need the beta flag", async () => {
    const issues = await issuesOf(cluster("uses: satellite/perigee/anything\nidentifier: a"), {
      isBeta: false,
    });
    expect(issues.map(({ message }) => message)).toEqual([
      "satellite/perigee/anything needs a key with the beta flag",
    ]);
  });
});

describe("fault 104: circles and numbers of members", () => {
  it("refuses a circle, and names it", async () => {
    const waits = (identifier: string, name: string): string =>
      `uses: satellite/one/own\nidentifier: ${identifier}\ninput: { x: "\${{ ${name}.output }}" }`;
    expect(await told(cluster(waits("a", "b"), waits("b", "c"), waits("c", "b")))).toEqual([
      "8:19 cluster.satellites[1].identifier: waits for itself: b -> c -> b",
    ]);
    expect((await issuesOf(cluster(waits("a", "a"))))[0]?.message).toBe("waits for itself: a -> a");
  });

  it("takes 1,000 members and no more", async () => {
    const members = Array.from({ length: 1_001 }, (_, index) => ({
      uses: "satellite/one/own",
      identifier: `m${index}`,
    }));
    expect(await issuesOf({ cluster: { satellites: members.slice(1) } })).toEqual([]);
    expect((await issuesOf({ cluster: { satellites: members } })).map(({ message }) => message)).toEqual([
      "has at most 1000 satellites, got 1001",
    ]);
  });
});
