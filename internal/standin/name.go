package standin

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Name is a name for a table or product of the test's own, new at each call: stand-ins outlive a test, and so does what is in them.
func Name(t testing.TB, what string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	return fmt.Sprintf("%s-%08x.%s", name[max(0, len(name)-180):], rand.Uint32(), what)
}
