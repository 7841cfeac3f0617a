/**
 * Keys of requests, by which answers are kept: lists of them are bytes, one key after the other.
 */

/** Of one key: a SHA-256 (shard/answers/request_key.ts). */
export const ANSWER_KEY_BYTES = 32;
