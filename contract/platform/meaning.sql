-- Models that have made vectors. One that sends vectors of another length is another model, also under the same name.
-- `unrelated` and `related` are the usual cosines of two texts that do not, and do, mean the same. `used_at` is in
-- seconds since 1970, roughly: vectors of a model that nobody uses any more are removed.
CREATE TABLE models (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    unrelated REAL,
    related REAL,
    used_at INTEGER NOT NULL,
    UNIQUE (name, dimensions)
);

-- What each chunk means, for each model: numbers of two bytes. A chunk without a row has yet to be embedded.
-- Row numbers are never given twice, unlike those of chunks: what was read up to a number stays known by it.
CREATE TABLE vectors (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    chunk INTEGER NOT NULL REFERENCES chunks (n) ON DELETE CASCADE,
    model INTEGER NOT NULL,
    vector BLOB NOT NULL,
    UNIQUE (chunk, model)
);

CREATE INDEX vectors_by_brain ON vectors (brain, model);

-- How many chunks of a brain have a vector of a model, counted by whoever adds or removes one.
CREATE TABLE embedded (
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    model INTEGER NOT NULL REFERENCES models (n),
    chunks INTEGER NOT NULL,
    PRIMARY KEY (brain, model)
) WITHOUT ROWID;
