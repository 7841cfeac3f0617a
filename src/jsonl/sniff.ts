/**
 * Tells bytes that cannot be JSONL in UTF-8 from those that may be: other encodings and compressed files.
 *
 * Only certain signs count: a magic number, a byte order mark, or text in which every character is wrapped in NULs.
 * A NUL here and there is a fault of its line, not of the file.
 */

/** Bytes that `sniff` looks at, at most. */
const SNIFFED_BYTES_MAX = 64;

/** First bytes of UTF-32 and UTF-16 with their marks, gzip, zip (also empty or spanned), zstd, bzip2, xz, lz4, 7z. */
const SIGNATURES: readonly (readonly number[])[] = [
  [0x00, 0x00, 0xfe, 0xff],
  [0xff, 0xfe],
  [0xfe, 0xff],
  [0x1f, 0x8b],
  [0x50, 0x4b, 0x03, 0x04],
  [0x50, 0x4b, 0x05, 0x06],
  [0x50, 0x4b, 0x07, 0x08],
  [0x28, 0xb5, 0x2f, 0xfd],
  [0x42, 0x5a, 0x68],
  [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00],
  [0x04, 0x22, 0x4d, 0x18],
  [0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c],
];

/** Share of 16-bit units that must have a NUL in the same half: the first characters of JSONL are ASCII. */
const WIDE_SHARE_MIN = 0.75;

/** `bytes` are the first of the input, 64 or more where there are so many. */
export function sniff(bytes: Uint8Array): "jsonl" | "unsupported" {
  const isSigned = SIGNATURES.some((signature) => signature.every((byte, index) => bytes[index] === byte));
  return isSigned || isWideText(bytes.subarray(0, SNIFFED_BYTES_MAX)) ? "unsupported" : "jsonl";
}

/** UTF-16 or UTF-32 without a mark. */
function isWideText(bytes: Uint8Array): boolean {
  const quads = bytes.length >> 2;
  if (quads === 0) return false;
  const nuls = [0, 0, 0, 0];
  for (let index = 0; index < quads * 4; index++) if (bytes[index] === 0) nuls[index & 3]!++;
  const [a, b, c, d] = nuls as [number, number, number, number];
  const most = quads * WIDE_SHARE_MIN;
  const isLittle = b >= most && d >= most && a === 0; // UTF-16LE: c is 0, UTF-32LE: c is NUL too
  const isBig = a >= most && c >= most && d === 0;
  const isUtf32Big = quads > 1 && a >= most && b >= most && c >= most && d === 0;
  return (isLittle && (c === 0 || c >= most)) || (isBig && b === 0) || isUtf32Big;
}
