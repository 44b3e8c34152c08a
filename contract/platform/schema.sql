-- One file holds every brain. Integer keys stay inside; ids on the wire are derived or stored beside them.
-- Each brain also has a full-text table words_<n>, made with the brain, so that brains share no statistics.

CREATE TABLE brains (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    visibility TEXT NOT NULL,
    chunks INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

-- `generated` marks what the platform wrote by itself; a caller's write clears it.
-- `origin_sha256` is the hash of the ingested file or page the document was made from.
CREATE TABLE documents (
    n INTEGER PRIMARY KEY,
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    path TEXT NOT NULL,
    title TEXT NOT NULL,
    source TEXT NOT NULL,
    content_type TEXT NOT NULL,
    byte_size INTEGER NOT NULL,
    checksum_sha256 TEXT NOT NULL,
    metadata TEXT NOT NULL,
    generated INTEGER NOT NULL,
    origin_sha256 TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (brain, path)
);

CREATE INDEX documents_by_origin ON documents (brain, origin_sha256) WHERE origin_sha256 IS NOT NULL;

-- Bodies live apart, so that listing thousands of documents does not page through their text.
CREATE TABLE bodies (
    document INTEGER PRIMARY KEY REFERENCES documents (n) ON DELETE CASCADE,
    content BLOB NOT NULL
);

-- The text of a chunk is in its brain's words table, under the same rowid.
CREATE TABLE chunks (
    n INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (n) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    UNIQUE (document, ordinal)
);

CREATE TABLE sessions (
    n INTEGER PRIMARY KEY,
    brain INTEGER NOT NULL REFERENCES brains (n) ON DELETE CASCADE,
    id TEXT NOT NULL,
    extracted_up_to INTEGER NOT NULL DEFAULT 0,
    reflected_up_to INTEGER NOT NULL DEFAULT 0,
    reflection TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    ended_at TEXT,
    UNIQUE (brain, id)
);

CREATE TABLE messages (
    session INTEGER NOT NULL REFERENCES sessions (n) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    name TEXT,
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
