/**
 * Numbers as people read them on a terminal.
 */

/** `1,234,567`. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** `999`, `1.2k`, `3.4M`, `5.6G`. */
export function short(value: number): string {
  if (value < 1_000) return String(Math.round(value));
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (value >= size) return `${(value / size).toFixed(value / size < 10 ? 1 : 0)}${unit}`;
  }
  return String(value);
}

/** `0:07`, `12:34`, `3:00:00`, `2d 03:00`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  const [days, hours, minutes] = [
    Math.floor(seconds / 86_400),
    Math.floor(seconds / 3_600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  const two = (value: number): string => String(value).padStart(2, "0");
  if (days > 0) return `${days}d ${two(hours)}:${two(minutes)}`;
  if (hours > 0) return `${hours}:${two(minutes)}:${two(seconds % 60)}`;
  return `${minutes}:${two(seconds % 60)}`;
}

/** `87%`. */
export function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

/** Bytes in the largest binary unit: `512 B`, `12.3 MiB`. */
export function sizeText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1_024 && unit < units.length - 1; unit += 1) size /= 1_024;
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}
