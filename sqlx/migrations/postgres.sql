-- Two programs that start at once create the table one after the other: IF NOT EXISTS alone can fail then.
SELECT pg_advisory_xact_lock(8821935170233714);

-- One row a fence. zxid and turn are the highest token of a holder that held the lock alone; shared_zxid and shared_turn
-- are the highest token of a reader. 0 stands for none.
CREATE TABLE IF NOT EXISTS zklock_fences (
    name TEXT PRIMARY KEY,
    zxid BIGINT NOT NULL DEFAULT 0,
    turn BIGINT NOT NULL DEFAULT 0,
    shared_zxid BIGINT NOT NULL DEFAULT 0,
    shared_turn BIGINT NOT NULL DEFAULT 0
);
