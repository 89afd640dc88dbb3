-- schema.sql - the tables of phasor.db, run once on an empty file, in one transaction.
--
-- A unit is one NVRTC compile. Its kernels are found by (key, arch); deleting either side deletes
-- the other: a unit with its last kernel, the kernels with their unit. A plan is found by its key.
-- Times are milliseconds since 1970. Hashes are XXH3-128 in 16 bytes, high half first (what
-- `xxh128sum` prints). Columns that are read on a hit stand before long ones that are not, so that
-- a hit does not walk over them.
--
-- A file is ours when its statements are those below, comments included. Whoever changes one raises
-- user_version here and SCHEMA_VERSION in schema.h: files of a lower number are set aside, those of
-- a higher one are only read.
PRAGMA application_id = 1346917202; -- "PHSR"
PRAGMA user_version = 2;

CREATE TABLE unit (
    id INTEGER PRIMARY KEY,
    arch TEXT NOT NULL,      -- "sm_90"
    toolchain TEXT NOT NULL, -- "nvrtc 13.0.88"; a column and no part of a key: see cache_get_kernel
    options TEXT NOT NULL,   -- as given to NVRTC
    created INTEGER NOT NULL,
    compile_ms REAL,
    registers INTEGER,    -- NULL: unknown, so the next two
    spill_bytes INTEGER,
    shared_bytes INTEGER,
    checksum BLOB, -- of the cubin
    seal BLOB,     -- over arch, toolchain, options, resources, checksum and source
    cubin BLOB,
    source TEXT
);

CREATE TABLE kernel (
    id INTEGER PRIMARY KEY, -- grows: of two rows the higher one is newer
    key BLOB NOT NULL,      -- hash of the canonical key
    arch TEXT NOT NULL,
    unit INTEGER NOT NULL REFERENCES unit (id) ON DELETE CASCADE,
    name TEXT NOT NULL,    -- entry name in the cubin
    seal BLOB NOT NULL,    -- over key, arch, name and the unit's toolchain, options and checksum
    canonical BLOB NOT NULL -- the key itself, compared on every hit
);
CREATE INDEX kernel_key ON kernel (key, arch);
CREATE INDEX kernel_unit ON kernel (unit);

CREATE TABLE plan (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    stamp TEXT NOT NULL, -- of the generator that made it: for another one it is no hit
    created INTEGER NOT NULL,
    seal BLOB, -- over key, stamp and content
    canonical BLOB NOT NULL,
    content BLOB
);
CREATE INDEX plan_key ON plan (key);
CREATE INDEX plan_stamp ON plan (stamp);

-- When a row was last used. It stands beside the rows because an update of a row writes all of it,
-- cubin included.
-- A row that is missing here counts as the oldest.
CREATE TABLE last_use (
    kind INTEGER NOT NULL, -- 0 unit, 1 plan
    id INTEGER NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX last_use_time ON last_use (time);

-- Totals since the file was made: hits, misses, ...
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Small facts by name: "last_trouble", what was learned about a toolchain, the mark of an export.
CREATE TABLE note (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER kernel_deleted AFTER DELETE ON kernel
WHEN NOT EXISTS (SELECT 1 FROM kernel WHERE unit = OLD.unit)
BEGIN
    DELETE FROM unit WHERE id = OLD.unit;
END;
CREATE TRIGGER unit_deleted AFTER DELETE ON unit
BEGIN
    DELETE FROM last_use WHERE kind = 0 AND id = OLD.id;
END;
CREATE TRIGGER plan_deleted AFTER DELETE ON plan
BEGIN
    DELETE FROM last_use WHERE kind = 1 AND id = OLD.id;
END;
CREATE TRIGGER unit_added AFTER INSERT ON unit
BEGIN
    INSERT OR REPLACE INTO last_use VALUES (0, NEW.id, NEW.created);
END;
CREATE TRIGGER plan_added AFTER INSERT ON plan
BEGIN
    INSERT OR REPLACE INTO last_use VALUES (1, NEW.id, NEW.created);
END;
