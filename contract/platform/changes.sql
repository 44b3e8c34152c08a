-- What happened to documents, in the order of the commits; the oldest rows go as new ones come.
-- Numbers are never given twice, not even after a brain and its rows are gone: listeners remember them.
CREATE TABLE changes (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    old_path TEXT,
    reason TEXT,
    at TEXT NOT NULL
);
