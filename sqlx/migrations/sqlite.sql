-- One row a fence. zxid and turn are the highest token of a holder that held the lock alone; shared_zxid and shared_turn
-- are the highest token of a reader. 0 stands for none.
CREATE TABLE IF NOT EXISTS zklock_fences (
    name TEXT PRIMARY KEY,
    zxid INTEGER NOT NULL DEFAULT 0,
    turn INTEGER NOT NULL DEFAULT 0,
    shared_zxid INTEGER NOT NULL DEFAULT 0,
    shared_turn INTEGER NOT NULL DEFAULT 0
);
