package usage

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/awsmp/metering/internal/metering"
)

const tokenBytes = 16

func tokenOf(bits [tokenBytes]byte) string { return base64.RawURLEncoding.EncodeToString(bits[:]) }

// newToken is 128 random bits.
func newToken() string {
	var bits [tokenBytes]byte
	_, _ = rand.Read(bits[:]) // never fails
	return tokenOf(bits)
}

// contentToken stands for an id and everything that one flush adds to one row: the same batch sent again has the same tokens,
// and another batch under the same id has others, so that it is not lost. The buffer is returned for the next one.
func contentToken(id string, f metering.Flush, buf []byte) (string, []byte) {
	text := func(s string) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	buf = buf[:0]
	text(id)
	text(f.Group.License)
	text(f.Group.Account)
	text(f.Group.Dimension)
	buf = binary.AppendVarint(buf, int64(f.Second))
	text(f.CustomerIdentifier)
	buf = binary.AppendVarint(buf, f.Quantity)
	for _, a := range f.Allocations {
		buf = binary.AppendVarint(buf, a.Quantity)
		buf = binary.AppendUvarint(buf, uint64(len(a.Tags)))
		for _, t := range a.Tags {
			text(t.Key)
			text(t.Value)
		}
	}
	sum := sha256.Sum256(buf)
	return tokenOf([tokenBytes]byte(sum[:])), buf
}
