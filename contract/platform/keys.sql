-- Which message of a session came under which key, so that the same message is added once however often it is sent.

CREATE TABLE IF NOT EXISTS message_keys (
    session INTEGER NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (session, key),
    FOREIGN KEY (session, seq) REFERENCES messages (session, seq) ON DELETE CASCADE
) WITHOUT ROWID
