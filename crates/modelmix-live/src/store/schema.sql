-- The database of a live run of modelmix. Times are milliseconds since 1970 in UTC; costs are in the currency of the run.

-- The run: one row.
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    description TEXT NOT NULL CHECK (json_valid(description)),  -- the plan, without secrets
    checksum BLOB NOT NULL CHECK (length(checksum) = 32),       -- the SHA-256 of the description; the chain of events begins with it
    modelmix TEXT NOT NULL,
    sqlite TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;

-- What has been committed: one row.
CREATE TABLE progress (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    commits INTEGER NOT NULL,                              -- the number of transactions
    events INTEGER NOT NULL,                               -- the number of rows of events
    checksum BLOB NOT NULL CHECK (length(checksum) = 32)   -- that of the last event
) STRICT;

CREATE TABLE arms (
    arm INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE pulls (
    pull INTEGER PRIMARY KEY CHECK (pull >= 0),
    arm INTEGER NOT NULL CHECK (arm >= 0),
    count INTEGER NOT NULL CHECK (count >= 1),             -- samples asked for
    prompt INTEGER,                                        -- the number of the prompt; NULL without prompts
    seed INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('asked', 'sent', 'failed', 'received', 'told', 'abandoned')),
    asked INTEGER NOT NULL,
    ended INTEGER,                                         -- when it was told or abandoned
    reason TEXT                                            -- why it was abandoned
) STRICT;

CREATE TABLE attempts (
    pull INTEGER NOT NULL REFERENCES pulls,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    reserved REAL NOT NULL CHECK (reserved >= 0),          -- the most that it can cost
    sent INTEGER NOT NULL,
    outcome TEXT CHECK (outcome IN ('received', 'failed')),-- NULL: none yet
    cost REAL CHECK (cost >= 0),                           -- NULL: in doubt, so that the reserved cost stays reserved
    kind TEXT,                                             -- why it failed
    status INTEGER,                                        -- the status of an HTTP answer
    message TEXT,
    ended INTEGER,
    PRIMARY KEY (pull, attempt),
    CHECK ((outcome IS NULL) = (ended IS NULL)),
    CHECK ((outcome IS 'failed') = (kind IS NOT NULL)),
    CHECK (outcome IS NOT 'received' OR cost IS NOT NULL),
    CHECK (outcome IS NOT NULL OR cost IS NULL)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX one_answer_per_pull ON attempts (pull) WHERE outcome = 'received';

CREATE TABLE samples (
    pull INTEGER NOT NULL REFERENCES pulls,
    ordinal INTEGER NOT NULL CHECK (ordinal >= 0),         -- the position in the answer
    sha256 TEXT CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),  -- NULL: features only
    extension TEXT CHECK (extension NOT GLOB '*[^0-9a-z]*'),
    bytes INTEGER,
    features BLOB,                                         -- 32-bit floats, little-endian
    position INTEGER CHECK (position >= 0),                -- the position in the told event; NULL: not told
    scores TEXT CHECK (json_valid(scores)),                -- an object: score per name
    rejected TEXT,                                         -- why it cannot be used
    PRIMARY KEY (pull, ordinal),
    CHECK ((sha256 IS NULL) = (extension IS NULL) AND (sha256 IS NULL) = (bytes IS NULL)),
    CHECK (sha256 IS NOT NULL OR features IS NOT NULL),
    CHECK (position IS NULL OR (features IS NOT NULL AND scores IS NOT NULL AND rejected IS NULL))
) STRICT;

-- What happened in the session. The features and scores of a told event are in samples.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY CHECK (seq >= 1),
    kind TEXT NOT NULL CHECK (kind IN ('asked', 'told', 'abandoned', 'known')),
    pull INTEGER REFERENCES pulls,
    body TEXT NOT NULL CHECK (json_valid(body)),           -- of a told event: the decisions
    at INTEGER NOT NULL,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32),  -- of the row, what it refers to, and the checksum before it
    CHECK ((kind = 'known') = (pull IS NULL))
) STRICT;

CREATE TABLE set_aside (
    arm INTEGER PRIMARY KEY CHECK (arm >= 0),
    reason TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE lifecycle (
    seq INTEGER PRIMARY KEY,
    what TEXT NOT NULL,
    note TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Pulls, failures and cost per arm. The cost of an attempt is confirmed, or it is in doubt and counts with what was reserved.
CREATE VIEW cost_per_arm AS
SELECT
    pulls.arm,
    arms.name,
    count(*) AS pulls,
    sum(pulls.state = 'told') AS told,
    sum(pulls.state = 'abandoned') AS abandoned,
    ifnull(sum(spent.attempts), 0) AS attempts,
    ifnull(sum(spent.failures), 0) AS failures,
    ifnull(sum(given.samples), 0) AS samples,
    ifnull(sum(given.rejected), 0) AS rejected,
    total(spent.confirmed) AS confirmed,
    total(spent.in_doubt) AS in_doubt
FROM pulls
LEFT JOIN arms USING (arm)
LEFT JOIN (
    SELECT pull, count(*) AS attempts, sum(outcome IS 'failed') AS failures, total(cost) AS confirmed,
        total(reserved) FILTER (WHERE cost IS NULL) AS in_doubt
    FROM attempts GROUP BY pull
) AS spent USING (pull)
LEFT JOIN (
    SELECT pull, count(*) AS samples, count(rejected) AS rejected FROM samples GROUP BY pull
) AS given USING (pull)
GROUP BY pulls.arm;

-- Samples with their file, arm and prompt. The cost of a pull, with its failed attempts, is divided among its samples.
CREATE VIEW samples_with_cost AS
SELECT
    samples.pull,
    samples.ordinal,
    pulls.arm,
    arms.name,
    pulls.prompt,
    pulls.seed,
    'payloads/' || substr(sha256, 1, 2) || '/' || sha256 || CASE extension WHEN '' THEN '' ELSE '.' || extension END AS file,
    samples.bytes,
    samples.position IS NOT NULL AS told,
    samples.scores,
    samples.rejected,
    (SELECT total(cost) FROM attempts WHERE attempts.pull = samples.pull)
        / (SELECT count(*) FROM samples AS others WHERE others.pull = samples.pull) AS cost
FROM samples
JOIN pulls USING (pull)
LEFT JOIN arms USING (arm);
