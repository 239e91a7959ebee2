package verify

import (
	"maps"
	"regexp"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Mark is the attribute that each item written by a run bears: its value is the run's id.
const Mark = "awsmpVerify"

// account is the invented buyer's.
const account = "111122223333"

// The licenses that all runs write under. The account in them is one that AWS uses in examples: nobody has them.
const (
	licenseOne    = "arn:aws:license-manager::111122223333:license:l-awsmpverify0000000000000000000a1"
	licenseTwo    = "arn:aws:license-manager::111122223333:license:l-awsmpverify0000000000000000000b2"
	licenseBroken = "arn:aws:awsmp-verify" // no license's ARN
	legacyOne     = "awsmp-verify-1"       // what stands in a license's place for products that meter by identifier
	legacyTwo     = "awsmp-verify-2"
)

// identifier is the invented buyer's under the old scheme.
const identifier = "awsmp-verify"

// Licenses are all licenses that runs write invented usage under.
func Licenses() []string {
	return []string{licenseOne, licenseTwo, licenseBroken, legacyOne, legacyTwo}
}

// NewID makes the id of a run that begins at now. random tells it from another that begins in the same second.
func NewID(now time.Time, random uint16) string {
	const digits = "0123456789abcdef"
	return now.UTC().Format("20060102T150405") + "-" + string([]byte{digits[random>>12], digits[random>>8&15], digits[random>>4&15], digits[random&15]})
}

const idPattern = `\d{8}T\d{6}-[0-9a-f]{4}`

var (
	wholeID       = regexp.MustCompile(`^` + idPattern + `$`)
	inDimension   = regexp.MustCompile(`^(?:[^#]*#)?awsmp-verify-(` + idPattern + `)-`)
	dimensionStem = "awsmp-verify-"
)

// dimension is that of a case of a run.
func dimension(id, name string) string { return dimensionStem + id + "-" + name }

// runOf is the run that an item is of; empty where it is of none. What the pipeline makes of a run's rows bears the run's id in its
// dimension alone.
func runOf(other metering.Item, sortKey string) string {
	if id, ok := other[Mark].(string); ok && wholeID.MatchString(id) {
		return id
	}
	if found := inDimension.FindStringSubmatch(sortKey); found != nil {
		return found[1]
	}
	return ""
}

func marked(r metering.Row, id string) metering.Row {
	r.Other = maps.Clone(r.Other)
	if r.Other == nil {
		r.Other = metering.Item{}
	}
	r.Other[Mark] = id
	return r
}

func markedRecord(r metering.Record, id string) metering.Record {
	r.Other = maps.Clone(r.Other)
	if r.Other == nil {
		r.Other = metering.Item{}
	}
	r.Other[Mark] = id
	return r
}
