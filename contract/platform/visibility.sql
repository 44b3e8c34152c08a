-- Whose a brain is. One without an owner is from before, or of a gateway with one tenant: it is everybody's.
-- Slugs are unique among the brains that a caller sees, and no longer in the whole file: a name that is taken
-- would tell of a brain that is not theirs.
CREATE TABLE brains_with_owners (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    visibility TEXT NOT NULL,
    chunks INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    owner TEXT,
    org TEXT
);

INSERT INTO brains_with_owners (n, id, slug, name, visibility, chunks, created_at, updated_at)
SELECT n, id, slug, name, visibility, chunks, created_at, updated_at FROM brains;

-- Numbers are never used again, also not those of brains that are gone.
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'brains')
WHERE name = 'brains_with_owners' AND EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'brains');

DROP TABLE brains;

ALTER TABLE brains_with_owners RENAME TO brains;

CREATE INDEX brains_by_slug ON brains (slug);

-- When a document's front matter says that it ends: in milliseconds since 1970. What is over is not found.
ALTER TABLE documents ADD COLUMN expires INTEGER;

CREATE INDEX documents_by_expiry ON documents (brain, expires) WHERE expires IS NOT NULL;
