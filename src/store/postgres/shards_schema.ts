/**
 * The tables of runs over a fleet, and of their shards: ranges of lines of the input.
 *
 *   shard:  waiting -> claimed -> done | failed
 *                             -> held -> waiting     (no item can continue; its client releases it, and the same partition claims it again)
 *   run:    open -> taken                            (its client has all answers: they are removed, then the run)
 *
 * Amounts are nano-USD. The shards of a run with a `cap_nano` draw from it (`perigee_caps`, under `run:<id>`). `aside_nano`, `share_nano`,
 * `last_share_nano` and `unshared_lines` were in use before caps were drawn.
 */
export const SHARDS_SCHEMA = `
  CREATE TABLE perigee_runs (
    id text PRIMARY KEY,
    project text NOT NULL DEFAULT '',
    name text NOT NULL,
    options text NOT NULL,
    input text NOT NULL,
    state text NOT NULL DEFAULT 'open',
    cap_nano bigint,
    aside_nano bigint NOT NULL DEFAULT 0,
    unshared_lines bigint NOT NULL,
    last_share_nano bigint NOT NULL DEFAULT 0,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE TABLE perigee_shards (
    run text NOT NULL,
    index integer NOT NULL,
    first_line bigint NOT NULL,
    lines integer NOT NULL,
    pieces integer NOT NULL,
    latest_start_ms bigint,
    state text NOT NULL DEFAULT 'waiting',
    part integer,
    output text NOT NULL DEFAULT '',
    counts text NOT NULL DEFAULT '',
    share_nano bigint,
    spent_nano bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    PRIMARY KEY (run, index)
  );
  CREATE INDEX perigee_shards_waiting ON perigee_shards (latest_start_ms, run, index) WHERE state = 'waiting';
  CREATE INDEX perigee_shards_of_part ON perigee_shards (part, state) WHERE part IS NOT NULL;
`;
