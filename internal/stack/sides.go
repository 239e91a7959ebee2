package stack

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/awsapi"
)

// atOnce is how many calls one question makes side by side. CloudWatch Logs allows five a second and account (Amazon CloudWatch Logs
// quotas, FilterLogEvents); what is throttled is tried again.
const atOnce = 8

// sideBySide asks n things at once. What one of them fails with costs that one alone, and the error names each kind of failure once: who may not read the
// alarms still sees the queues. When the context ends, that is the error.
func sideBySide[T any](ctx context.Context, n int, ask func(ctx context.Context, i int) (T, error)) ([]T, error) {
	results, errs := make([]T, n), make([]error, n)
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i := range n {
		all.Go(func() error {
			results[i], errs[i] = ask(ctx, i)
			return nil
		})
	}
	_ = all.Wait()
	return results, distinct(ctx, errs...)
}

// distinct joins errors, of those that are alike the first.
func distinct(ctx context.Context, errs ...error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	seen := make(map[string]bool)
	var kept []error
	for _, err := range flat(errs) {
		key := err.Error()
		var call *awsapi.Error
		if errors.As(err, &call) {
			key = call.Operation + " " + string(call.Class)
		}
		if !seen[key] {
			seen[key] = true
			kept = append(kept, err)
		}
	}
	return errors.Join(kept...)
}

// flat takes joined errors apart.
func flat(errs []error) (all []error) {
	for _, err := range errs {
		if joined, is := err.(interface{ Unwrap() []error }); is {
			all = append(all, flat(joined.Unwrap())...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// gone reports whether what was called does not exist.
func gone(err error) bool { return awsapi.ClassOf(err) == awsapi.Missing }
