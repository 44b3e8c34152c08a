-- Those of version 4 were kept in another way. They are made anew.
DROP TABLE IF EXISTS vectors;
DROP TABLE IF EXISTS embedded;
DROP TABLE IF EXISTS models;

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

-- How many chunks of a brain have a vector of a model, counted by whoever adds or removes one, and how many were ever
-- made.
CREATE TABLE embedded (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    model INTEGER NOT NULL REFERENCES models (n),
    chunks INTEGER NOT NULL DEFAULT 0,
    made INTEGER NOT NULL DEFAULT 0,
    UNIQUE (brain, model)
);

-- What each chunk means, for each model: numbers of two bytes. A chunk without a row has yet to be embedded.
-- Those of a brain by a model lie side by side, in the order in which they were made: `n` is 2^40 times the number of
-- their row in `embedded`, and counts on from there. It is never given twice, unlike those of chunks: what was read up
-- to a number stays known by it.
CREATE TABLE vectors (
    n INTEGER PRIMARY KEY,
    chunk INTEGER NOT NULL REFERENCES chunks (n) ON DELETE CASCADE,
    model INTEGER NOT NULL,
    vector BLOB NOT NULL,
    UNIQUE (chunk, model)
);
