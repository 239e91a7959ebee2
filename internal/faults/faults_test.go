package faults_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/faults"
)

func TestTheFirstAreToldAndTheOthersCounted(t *testing.T) {
	t.Parallel()
	var l faults.List
	if err := l.Err(); err != nil {
		t.Errorf("an empty list is the error %v", err)
	}
	l.Add(nil)
	first := errors.New("fault 1")
	l.Add(first)
	if err := l.Err(); !errors.Is(err, first) || err.Error() != "fault 1" {
		t.Errorf("one: %v", err)
	}
	for i := 2; i <= faults.Told+3; i++ {
		l.Add(fmt.Errorf("fault %d", i))
	}
	err := l.Err()
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != faults.Told+1 || lines[0] != "fault 1" || lines[faults.Told] != "and 3 errors more" || !errors.Is(err, first) {
		t.Errorf("lines %q", lines)
	}
}

func TestSeveralAddAtOnce(t *testing.T) {
	t.Parallel()
	var l faults.List
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { l.Add(errors.New("fault")) })
	}
	all.Wait()
	if text := l.Err().Error(); !strings.HasSuffix(text, fmt.Sprintf("and %d errors more", 100-faults.Told)) {
		t.Error(text)
	}
}
