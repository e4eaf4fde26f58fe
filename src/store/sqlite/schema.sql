-- One row a register.  version counts the changes of the whole database: a
-- number never comes back, and what changed since a listing is found through
-- its index.  The checks guard against an operator's slip.
CREATE TABLE register (
    key TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL UNIQUE CHECK (version > 0),
    nonce BLOB NOT NULL CHECK (length(nonce) = 16),
    prev BLOB NOT NULL CHECK (length(prev) = 16),
    tombstone INTEGER NOT NULL CHECK (tombstone IN (0, 1)),
    data BLOB NOT NULL
) STRICT;
PRAGMA application_id = 0x74656e75; -- "tenu"
