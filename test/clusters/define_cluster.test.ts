/** The SDK of clusters. */
import { describe, expect, it } from "vitest";
import { readDeclaration } from "../../src/clusters/declaration/yaml_declaration.ts";
import { defineCluster, reference } from "../../src/satellites.ts";

describe("defineCluster", () => {
  it("makes the object that the same YAML is read to", () => {
    const yaml = `sla: 2h
cluster:
  satellites:
    - { identifier: list, uses: satellite/perigee/get-files, input: { prefix: in/ } }
    - identifier: parse
      uses: satellite/perigee/parse-with-docling
      each: \${{ list.output.files }}
      concurrency: 4
      input: { file: "\${{ each.item.file_id }}" }
`;
    const defined = defineCluster({
      sla: "2h",
      cluster: {
        satellites: [
          { identifier: "list", uses: "satellite/perigee/get-files", input: { prefix: "in/" } },
          {
            identifier: "parse",
            uses: "satellite/perigee/parse-with-docling",
            each: reference("list.output.files"),
            concurrency: 4,
            input: { file: reference("each.item.file_id") },
          },
        ],
      },
    });
    expect(defined).toEqual(readDeclaration(yaml).value);
  });

  it("refuses circles, unknown identifiers and shapes at once", () => {
    const uses = "satellite/one/own";
    const make = (needs: string[]) => () =>
      defineCluster({ cluster: { satellites: [{ identifier: "a", uses, needs }] } });
    expect(make(["b"])).toThrow('cluster.satellites[0].needs[0]: no satellite has the identifier "b"');
    expect(make(["a"])).toThrow("cluster.satellites[0].identifier: waits for itself: a -> a");
    expect(() => defineCluster({ cluster: { satellites: [] } })).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        details: {
          issues: [{ path: "cluster.satellites", message: "must be a list of at least one satellite" }],
        },
      }),
    );
  });
});
