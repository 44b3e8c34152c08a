-- What a language model has yet to look at, and how far it is: a transcript by its path, a session by its id.
-- `done` counts characters of a transcript, or messages of a session. `claimed_at` is when a process took it.

CREATE TABLE IF NOT EXISTS model_work (
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    tree TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 1,
    attempts INTEGER NOT NULL DEFAULT 0,
    claimed_at REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (brain, kind, subject)
) WITHOUT ROWID
