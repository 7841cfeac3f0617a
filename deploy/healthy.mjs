/**
 * Whether a perigee answers, for health checks of containers without curl: `node healthy.mjs [url]`, exit code 0 or 1.
 *
 * By default `/readyz` of the public port. A worker without one has its private port, which refuses strangers with 403: it answers.
 */
const [url = "http://127.0.0.1:8080/readyz"] = process.argv.slice(2);
const PATIENCE_MS = 2_500;

try {
  const { status } = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  process.exitCode = status < 500 && status !== 404 ? 0 : 1;
} catch {
  process.exitCode = 1;
}
