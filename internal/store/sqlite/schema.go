package sqlite

import (
	"database/sql/driver"
	"fmt"
)

// applicationID marks a file as ours: "awmp".
const applicationID = 0x61776d70

// migrations lead from one version of the file to the next, the first one from nothing. What has been released never changes; a
// change of the schema is a further entry.
var migrations = []string{`
CREATE TABLE series (               -- a license, account and dimension
	id      INTEGER PRIMARY KEY,
	license TEXT NOT NULL,
	prefix  TEXT NOT NULL,          -- what the sort keys begin with: account#dimension#
	UNIQUE (license, prefix)
);

CREATE TABLE label (                -- a status and its reason, which many rows share
	id     INTEGER PRIMARY KEY,
	status TEXT NOT NULL,
	reason TEXT NOT NULL,
	UNIQUE (status, reason)
);

-- Columns without a type hold a number where the value has the usual form, and else the text as it was written.
CREATE TABLE usage_row (
	series      INTEGER NOT NULL,
	tail,                           -- of the sort key: seconds since 1970
	quantity    INTEGER,
	pending,                        -- meteringPending: hours since 1970
	odd         INTEGER,            -- 1 where rest is set
	label       INTEGER,
	late        INTEGER,
	created,                        -- seconds since 1970
	updated,
	flushes     TEXT,               -- tokens, apart by spaces; JSON where one holds a space
	customer    TEXT,
	allocations TEXT,               -- JSON
	rest        TEXT,               -- JSON: attributes that have no column, or another type than theirs
	PRIMARY KEY (series, tail)
) WITHOUT ROWID;
CREATE INDEX usage_pending ON usage_row (pending, series, tail, odd) WHERE pending IS NOT NULL;

CREATE TABLE usage_record (
	series      INTEGER NOT NULL,
	tail,                           -- of the sort key: hours since 1970
	quantity    INTEGER,
	pending,                        -- hours since 1970
	label       INTEGER,
	sent        INTEGER,
	sent_second TEXT,
	record_id   TEXT,
	billed      INTEGER,
	ttl         INTEGER,
	created,                        -- seconds since 1970
	updated,
	customer    TEXT,
	allocations TEXT,               -- JSON
	rest        TEXT,               -- JSON
	manifest    TEXT,               -- last, so that the index's readers never touch it
	PRIMARY KEY (series, tail)
) WITHOUT ROWID;
CREATE INDEX record_pending ON usage_record (pending, series, tail) WHERE pending IS NOT NULL;

CREATE TABLE deprovisioning (
	license TEXT NOT NULL,
	account TEXT NOT NULL,
	expiry  TEXT NOT NULL,
	PRIMARY KEY (license, account)
) WITHOUT ROWID;

CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE VIEW usage AS SELECT
	s.license AS licenseArn,
	substr(s.prefix, 1, instr(s.prefix, '#') - 1) AS customerAWSAccountId,
	substr(s.prefix, instr(s.prefix, '#') + 1, length(s.prefix) - instr(s.prefix, '#') - 1) AS dimension,
	CASE typeof(r.tail) WHEN 'integer' THEN strftime('%Y-%m-%dT%H:%M:%S', r.tail, 'unixepoch') ELSE r.tail END AS timestamp,
	r.quantity,
	CASE typeof(r.pending) WHEN 'integer' THEN strftime('%Y-%m-%dT%H', r.pending * 3600, 'unixepoch') ELSE r.pending END AS meteringPending,
	l.status AS meteringStatus, l.reason AS meteringStatusReason, r.late AS lateQuantity,
	r.allocations AS usageAllocations, r.customer AS customerIdentifier, r.flushes, r.rest,
	CASE typeof(r.created) WHEN 'integer' THEN strftime('%Y-%m-%dT%H:%M:%SZ', r.created, 'unixepoch') ELSE r.created END AS createdAt,
	CASE typeof(r.updated) WHEN 'integer' THEN strftime('%Y-%m-%dT%H:%M:%SZ', r.updated, 'unixepoch') ELSE r.updated END AS updatedAt
FROM usage_row r JOIN series s ON s.id = r.series LEFT JOIN label l ON l.id = r.label;

CREATE VIEW aggregated_usage AS SELECT
	s.license AS licenseArn,
	substr(s.prefix, 1, instr(s.prefix, '#') - 1) AS customerAWSAccountId,
	substr(s.prefix, instr(s.prefix, '#') + 1, length(s.prefix) - instr(s.prefix, '#') - 1) AS dimension,
	CASE typeof(r.tail) WHEN 'integer' THEN strftime('%Y-%m-%dT%H', r.tail * 3600, 'unixepoch') ELSE r.tail END AS hourBucket,
	r.quantity,
	CASE typeof(r.pending) WHEN 'integer' THEN strftime('%Y-%m-%dT%H', r.pending * 3600, 'unixepoch') ELSE r.pending END AS meteringPending,
	l.status AS meteringStatus, l.reason AS meteringStatusReason,
	r.sent AS sentQuantity, r.sent_second AS sentSecond, r.billed AS billedQuantity, r.record_id AS meteringRecordId,
	r.allocations AS usageAllocations, r.customer AS customerIdentifier, r.ttl, r.rest,
	CASE typeof(r.created) WHEN 'integer' THEN strftime('%Y-%m-%dT%H:%M:%SZ', r.created, 'unixepoch') ELSE r.created END AS createdAt,
	CASE typeof(r.updated) WHEN 'integer' THEN strftime('%Y-%m-%dT%H:%M:%SZ', r.updated, 'unixepoch') ELSE r.updated END AS updatedAt,
	r.manifest
FROM usage_record r JOIN series s ON s.id = r.series LEFT JOIN label l ON l.id = r.label;
`, `
CREATE TABLE subscriber (           -- a license and the account that holds it
	license    TEXT NOT NULL,
	account    TEXT NOT NULL,
	attributes TEXT NOT NULL,       -- JSON: all others, with the names and in the form that they have on AWS
	agreement  TEXT AS (attributes ->> 'agreementId'),
	expiry     TEXT AS (CASE attributes ->> 'deprovisioningPendingFlag' WHEN '1' THEN coalesce(attributes ->> 'deprovisioningExpiry', '') END),
	PRIMARY KEY (license, account)
) WITHOUT ROWID;
CREATE INDEX subscriber_agreement ON subscriber (agreement, license, account) WHERE agreement IS NOT NULL;
CREATE INDEX subscriber_expiry ON subscriber (expiry, license, account) WHERE expiry IS NOT NULL;

INSERT INTO subscriber (license, account, attributes)
SELECT license, account, json_object(
	'subscriptionStatus', 'deprovisioning', 'subscriptionStatusAt', began, 'licenseDeprovisionedAt', json_array(began),
	'deprovisioningPendingFlag', '1', 'deprovisioningExpiry', ends)
FROM (SELECT license, account, substr(expiry, 1, 19) || 'Z' AS ends, strftime('%Y-%m-%dT%H:%M:%SZ', substr(expiry, 1, 19), '-1 hour') AS began FROM deprovisioning);
DROP TABLE deprovisioning;

CREATE TABLE profile (              -- what a buyer told at registration: personal data, in no other table
	license    TEXT NOT NULL,
	account    TEXT NOT NULL,
	attributes TEXT NOT NULL,       -- JSON: all others, with the names and in the form that they have on AWS
	PRIMARY KEY (license, account)
) WITHOUT ROWID;

CREATE VIEW subscribers AS SELECT
	license AS licenseArn, account AS customerAWSAccountId,
	attributes ->> 'productCode' AS productCode,
	attributes ->> 'subscriptionStatus' AS subscriptionStatus, attributes ->> 'subscriptionStatusAt' AS subscriptionStatusAt,
	attributes ->> 'licenseUpdatedAt' AS licenseUpdatedAt, attributes ->> 'licenseDeprovisionedAt' AS licenseDeprovisionedAt,
	attributes ->> 'deprovisioningPendingFlag' AS deprovisioningPendingFlag, attributes ->> 'deprovisioningExpiry' AS deprovisioningExpiry,
	attributes ->> 'agreementId' AS agreementId, attributes ->> 'agreementStatus' AS agreementStatus,
	attributes ->> 'agreementStatusAt' AS agreementStatusAt, attributes ->> 'agreementStartTime' AS agreementStartTime,
	attributes ->> 'agreementEndTime' AS agreementEndTime, attributes ->> 'agreementAmendedAt' AS agreementAmendedAt,
	attributes ->> 'agreementEndedAt' AS agreementEndedAt,
	attributes ->> 'registeredRegions' AS registeredRegions,
	attributes ->> 'createdAt' AS createdAt, attributes ->> 'updatedAt' AS updatedAt,
	attributes
FROM subscriber;

CREATE VIEW customer_profile AS SELECT
	license AS licenseArn, account AS customerAWSAccountId,
	attributes ->> 'productCode' AS productCode, attributes ->> 'customerIdentifier' AS customerIdentifier,
	attributes ->> 'registrationData' AS registrationData,
	attributes ->> 'createdAt' AS createdAt, attributes ->> 'updatedAt' AS updatedAt,
	attributes
FROM profile;
`}

// migrate brings a file of the version oldest, or of a later one, to the newest version, in one transaction.
func migrate(c *conn, oldest int, steps []string) error {
	at, err := version(c, oldest, len(steps))
	if err != nil || at == len(steps) {
		return err
	}
	return c.transact(func() error { return upgrade(c, oldest, steps) })
}

// upgrade takes the steps that are left.
func upgrade(c *conn, oldest int, steps []string) error {
	at, err := version(c, oldest, len(steps)) // another process may have been faster, and of another release
	if err != nil || at == len(steps) {
		return err
	}
	for ; at < len(steps); at++ {
		if err := c.script(steps[at]); err != nil {
			return fmt.Errorf("migrate the store from version %d: %w", at, err)
		}
	}
	return c.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(steps)))
}

// fileVersion is one statement, so that all it reads is of one moment.
const fileVersion = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id, pragma_user_version"

// version is the file's version, 0 for an empty file. A file of somebody else, one of an older version than oldest, or one of a
// newer release than one that knows the versions up to newest, is a *Problem.
func version(c *conn, oldest, newest int) (int, error) {
	var application, at, tables int64
	err := c.query(fileVersion, nil, func(v []driver.Value) (bool, error) {
		application, _ = v[0].(int64)
		at, _ = v[1].(int64)
		tables, _ = v[2].(int64)
		return false, nil
	})
	switch {
	case err != nil:
		return 0, err
	case application != applicationID && (application != 0 || at != 0 || tables > 0):
		return 0, &Problem{Path: c.path, Why: "it is a SQLite file, but no store of awsmp", Hint: "name another file, or move this one away"}
	case application == applicationID && at == 0:
		return 0, &Problem{Path: c.path, Why: "its version number is gone, so it is not known what it holds", Hint: "bring back a backup; nothing was changed"}
	case at > int64(newest):
		return 0, &Problem{
			Path: c.path, Why: fmt.Sprintf("a newer release wrote it: it has version %d, this program knows %d", at, newest),
			Hint: "use that release, or a newer one; nothing was changed",
		}
	case at > 0 && at < int64(oldest):
		return 0, &Problem{
			Path: c.path, Why: fmt.Sprintf("it is of an older release: it has version %d, this program writes %d", at, newest),
			Hint: "open it with a node of this release first; nothing was changed", Err: ErrOlderVersion,
		}
	}
	return int(at), nil
}
