package usagefile

import (
	"strings"
	"testing"
)

// What could be read in two ways is read in none: a quantity that is guessed at is billed.
func TestReadGuessesNothing(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"a thousands separator": first + "1,000,",
		"a cell too many":       first + "7,,",
		"a cell too few":        strings.TrimSuffix(first, ","),
	} {
		kept, refused, fault := readAll(strings.NewReader(header+"\n"+line+"\n"), Options{})
		if fault != nil || len(kept) != 0 || len(refused) != 1 || refused[0].Code != WrongCellCount {
			t.Errorf("%s: kept %v, refused %v, fault %v", name, kept, refused, fault)
		}
	}
	kept, _, fault := readAll(strings.NewReader(header+",quantity\n"+first+"7,,8\n"), Options{})
	if len(kept) != 0 || fault == nil || !strings.Contains(fault.Error(), "twice") {
		t.Errorf("a second column of quantities: kept %v, fault %v", kept, fault)
	}
}
