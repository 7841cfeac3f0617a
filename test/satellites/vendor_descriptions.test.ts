/** What the satellites that come with perigee say of themselves. */
import { describe, expect, it } from "vitest";
import { vendorSatellites } from "../../src/satellites/builtin/vendor.ts";
import { describeSatellite, fromWire, toWire } from "../../src/satellites/sdk/description.ts";
import { faultOfJsonSchema, propertiesOf } from "../../src/satellites/sdk/json_schema.ts";

describe.each(vendorSatellites().map((satellite) => [satellite.name, satellite] as const))(
  "%s",
  (_name, satellite) => {
    const described = describeSatellite(satellite);

    it("has a sentence for those who choose, and schemas of objects that travel", () => {
      expect(described.description).toMatch(/^[A-Z].*\.$/);
      for (const schema of [described.inputSchema, described.configSchema])
        expect(faultOfJsonSchema(schema)).toBeUndefined();
      expect(fromWire(JSON.parse(JSON.stringify(toWire(described))))).toEqual(described);
    });

    it("knows all settings by name, so that a configured one can be refused what there is not", () => {
      const { properties, isOpen } = propertiesOf(described.configSchema);
      expect(isOpen).toBe(false);
      expect(properties.size).toBeGreaterThan(0);
    });
  },
);
