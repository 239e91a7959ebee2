package awsapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
)

func TestRepeat(t *testing.T) {
	t.Parallel()
	busy, refused := errors.New("busy"), errors.New("refused")
	for name, c := range map[string]struct {
		errs  []error // of the tries, in order
		want  error
		tries int
	}{
		"at once":            {[]error{nil}, nil, 1},
		"at the last try":    {[]error{busy, busy, nil}, nil, 3},
		"never":              {[]error{busy, busy, busy, nil}, busy, 3},
		"what does not pass": {[]error{busy, refused, nil}, refused, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				err := awsapi.Repeat(t.Context(), 3, time.Second, func(err error) bool { return errors.Is(err, busy) }, func() error {
					tries++
					return c.errs[tries-1]
				})
				if !errors.Is(err, c.want) || tries != c.tries {
					t.Errorf("%d tries: %v", tries, err)
				}
				if took := time.Since(began); took >= 3*time.Second {
					t.Errorf("waited for %v, at most 1 s and 2 s", took)
				}
			})
		})
	}
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	t.Parallel()
	busy, tries := errors.New("busy"), 0
	ctx, cancel := context.WithCancel(t.Context())
	err := awsapi.Repeat(ctx, 3, time.Hour, func(error) bool { return true }, func() error {
		tries++
		cancel()
		return busy
	})
	if !errors.Is(err, busy) || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
}
