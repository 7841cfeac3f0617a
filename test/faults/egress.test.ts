/** Fault 96: destinations that lead inwards, in every spelling, with sinks on this machine that must see nothing. */
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createEgress, type Egress } from "../../src/egress/egress.ts";

/** `PORT` stands for the port on which the sinks listen, and which is allowed. */
const CORPUS: readonly string[] = [
  // Loopback, this host, and every way to write an IPv4 address.
  "http://127.0.0.1:PORT/",
  "http://127.0.0.1.:PORT/",
  "http://127.0.0.2:PORT/",
  "http://127.255.255.254:PORT/",
  "http://127.1:PORT/",
  "http://127.0.1:PORT/",
  "http://0:PORT/",
  "http://0.0.0.0:PORT/",
  "http://0x0:PORT/",
  "http://00:PORT/",
  "http://2130706433:PORT/",
  "http://0x7f000001:PORT/",
  "http://0x7F.0x0.0x0.0x1:PORT/",
  "http://0x7f.1:PORT/",
  "http://017700000001:PORT/",
  "http://0177.0.0.1:PORT/",
  "http://0177.0x0.0.1:PORT/",
  "http://00000177.0.0.1:PORT/",
  "http://127.0.0.0x1:PORT/",
  "http://127.000.000.001:PORT/",
  "http://%31%32%37.0.0.1:PORT/",
  "http://127%2e0%2e0%2e1:PORT/",
  "http://0x7f.0.0.1%00.example.com:PORT/",
  "http://4294967295:PORT/",
  "http://4294967296:PORT/",
  "http://256.0.0.1:PORT/",
  "http://1.2.3.4.5:PORT/",
  // Digits and dots of other scripts.
  "http://１２７.０.０.１:PORT/",
  "http://①②⑦.⓪.⓪.①:PORT/",
  "http://127。0。0。1:PORT/",
  "http://127．0．0．1:PORT/",
  "http://127｡0｡0｡1:PORT/",
  "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏:PORT/",
  "http://١٢٧.٠.٠.١:PORT/",
  "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/",
  "http://ｌｏｃａｌｈｏｓｔ:PORT/",
  "http://loc\u00adalhost:PORT/",
  "http://loc\u200balhost:PORT/",
  // Private, shared, link-local, metadata, documentation, benchmark, multicast, reserved.
  "http://10.0.0.1:PORT/",
  "http://10.255.255.255:PORT/",
  "http://172.16.0.1:PORT/",
  "http://172.31.255.255:PORT/",
  "http://192.168.0.1:PORT/",
  "http://192.168.1.254:PORT/",
  "http://100.64.0.1:PORT/",
  "http://100.100.100.200/latest/meta-data/",
  "http://169.254.169.254/latest/meta-data/",
  "http://169.254.170.2/v2/credentials",
  "http://0xa9fea9fe/latest/meta-data/",
  "http://2852039166/latest/meta-data/",
  "http://0251.0376.0251.0376/",
  "http://169.254.43518/",
  "http://168.63.129.16/machine?comp=goalstate",
  "http://192.0.0.192/opc/v2/instance/",
  "http://192.0.2.1/",
  "http://192.88.99.1/",
  "http://198.18.0.1/",
  "http://198.51.100.1/",
  "http://203.0.113.1/",
  "http://224.0.0.1/",
  "http://239.255.255.250/",
  "http://240.0.0.1/",
  "http://255.255.255.255/",
  // IPv6: loopback, unspecified, mapped, compatible, translated, 6to4, Teredo, NAT64, local, multicast, documentation.
  "http://[::1]:PORT/",
  "http://[0:0:0:0:0:0:0:1]:PORT/",
  "http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/",
  "http://[::]:PORT/",
  "http://[::ffff:127.0.0.1]:PORT/",
  "http://[::ffff:7f00:1]:PORT/",
  "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/",
  "http://[::ffff:169.254.169.254]/",
  "http://[::ffff:8.8.8.8]/",
  "http://[::127.0.0.1]:PORT/",
  "http://[::7f00:1]:PORT/",
  "http://[::ffff:0:127.0.0.1]:PORT/",
  "http://[64:ff9b::127.0.0.1]:PORT/",
  "http://[64:ff9b::a9fe:a9fe]/",
  "http://[64:ff9b:1::7f00:1]:PORT/",
  "http://[2002:7f00:1::]:PORT/",
  "http://[2002:a9fe:a9fe::1]/",
  "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
  "http://[2001:db8::1]/",
  "http://[2001:10::1]/",
  "http://[2001:20::1]/",
  "http://[3fff::1]/",
  "http://[5f00::1]/",
  "http://[100::1]/",
  "http://[fe80::1]:PORT/",
  "http://[fe80::1%25eth0]:PORT/",
  "http://[fe80::1%eth0]:PORT/",
  "http://[fec0::1]/",
  "http://[fc00::1]/",
  "http://[fd00:ec2::254]/latest/meta-data/",
  "http://[ff02::1]/",
  // Names of one label, special-use names, dots at the end.
  "http://localhost:PORT/",
  "http://LOCALHOST:PORT/",
  "http://localhost.:PORT/",
  "http://localhost..:PORT/",
  "http://foo.localhost:PORT/",
  "http://localhost.localdomain:PORT/",
  "http://ip6-localhost:PORT/",
  "http://router/",
  "http://router./",
  "http://printer.local/",
  "http://metadata.google.internal/computeMetadata/v1/",
  "http://metadata.google.internal./",
  "http://kubernetes.default.svc.cluster.local/",
  "http://db.corp/",
  "http://nas.lan/",
  "http://box.home.arpa/",
  "http://1.0.0.127.in-addr.arpa/",
  "http://hidden.onion/",
  "http://a.test/",
  "http://a.invalid/",
  "http://.example.com/",
  "http://a..example.com/",
  // Public names with inner addresses (see NAMES).
  "http://loopback.attacker.net:PORT/",
  "http://loopback.attacker.net.:PORT/",
  "http://mixed.attacker.net:PORT/",
  "http://mapped.attacker.net:PORT/",
  "http://nat64.attacker.net:PORT/",
  "http://six.attacker.net:PORT/",
  "http://zone.attacker.net:PORT/",
  "http://short.attacker.net:PORT/",
  "http://metadata.attacker.net/",
  "http://127.0.0.1.attacker.net:PORT/",
  // Users, other schemes, other ports, spellings that parsers disagree about.
  "http://user@127.0.0.1:PORT/",
  "http://user:password@hooks.public.net:PORT/",
  "http://hooks.public.net@127.0.0.1:PORT/",
  "http://127.0.0.1:PORT@hooks.public.net/",
  "http://127.0.0.1:PORT\\@hooks.public.net/",
  "http:\\\\127.0.0.1:PORT\\",
  "http:/127.0.0.1:PORT/",
  "http:127.0.0.1:PORT/",
  "http://127.0.0.1:PORT#@hooks.public.net/",
  "http://127.0.0.1:PORT?@hooks.public.net/",
  " http://127.0.0.1:PORT/",
  "http://127.0.0.1\t:PORT/",
  "ht\ntp://127.0.0.1:PORT/",
  "http://hooks.public.net/\r\nHost: 127.0.0.1",
  "//127.0.0.1:PORT/",
  "127.0.0.1:PORT",
  "/etc/passwd",
  "file:///etc/passwd",
  "ftp://127.0.0.1:PORT/",
  "gopher://127.0.0.1:PORT/_GET",
  "ws://127.0.0.1:PORT/",
  "data:text/plain,hello",
  "javascript:alert(1)",
  "unix:/var/run/docker.sock",
  "http+unix://%2fvar%2frun%2fdocker.sock/",
  "http://hooks.public.net:22/",
  "http://hooks.public.net:6379/",
  "https://hooks.public.net:0/",
  "https://hooks.public.net:65536/",
  `http://hooks.public.net/${"a".repeat(2_048)}`,
  "http://",
  "",
];

/** What the resolver of the test says. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  "loopback.attacker.net": ["127.0.0.1"],
  "mixed.attacker.net": ["1.1.1.1", "127.0.0.1"],
  "mapped.attacker.net": ["::ffff:127.0.0.1"],
  "nat64.attacker.net": ["64:ff9b::7f00:1"],
  "six.attacker.net": ["::1"],
  "zone.attacker.net": ["fe80::1%eth0"],
  "short.attacker.net": ["127.1"],
  "metadata.attacker.net": ["169.254.169.254"],
  "127.0.0.1.attacker.net": ["127.0.0.1"],
  "hooks.public.net": ["127.0.0.1"],
};

const sinks: Server[] = [];
let connections = 0;
let port = 0;
let egress: Egress;
const asked: string[] = [];

beforeAll(async () => {
  port = await sink("127.0.0.1", 0);
  for (const host of ["127.0.0.2", "::1"]) await sink(host, port).catch(() => undefined); // not every machine has them
  egress = createEgress({
    clock: systemClock,
    ports: [port],
    resolve: async (name) => {
      asked.push(name);
      return NAMES[name] ?? ["127.0.0.1"];
    },
  });
});

afterAll(() => {
  for (const one of sinks) one.close();
});

function sink(host: string, wanted: number): Promise<number> {
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(wanted, host, () => {
      sinks.push(server);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}

describe("fault 96: a destination that leads inwards", () => {
  it(`is blocked in each of ${CORPUS.length} spellings, and nothing on this machine sees it`, async () => {
    expect(CORPUS.length).toBeGreaterThan(100);
    const passed: string[] = [];
    for (const text of CORPUS) {
      const url = text.replace("PORT", String(port));
      const body = new TextEncoder().encode("secret");
      const call = { url, method: "POST", headers: {}, body, timeoutMs: 2_000, responseBytesMax: 1_024 };
      const result = await egress.request(call);
      if (result.ok || result.failure !== "blocked_destination")
        passed.push(`${text} ${JSON.stringify(result)}`);
      if (!result.ok) expect(result.message).not.toMatch(/127|::1|169\.254|10\./);
    }
    expect(passed).toEqual([]);
    expect(connections).toBe(0);
  });

  it("is not even asked of a name server when the name itself is local", () => {
    // Arabic digits stay what they are: a public name like others.
    const isPublic = (name: string): boolean => name.endsWith(".net") || name.startsWith("xn--");
    expect(asked.filter((name) => !isPublic(name))).toEqual([]);
  });

  it("is blocked though the environment names a proxy that would take it", async () => {
    process.env["HTTP_PROXY"] = `http://127.0.0.1:${port}`;
    process.env["http_proxy"] = `http://127.0.0.1:${port}`;
    try {
      const call = {
        url: "http://10.0.0.1/",
        method: "GET",
        headers: {},
        timeoutMs: 500,
        responseBytesMax: 1,
      };
      expect(await egress.request(call)).toMatchObject({ failure: "blocked_destination" });
      expect(connections).toBe(0);
    } finally {
      delete process.env["HTTP_PROXY"];
      delete process.env["http_proxy"];
    }
  });
});
