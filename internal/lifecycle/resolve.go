package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// ErrUnresolved says that an event concerns a license or an agreement that is not known, or not yet: events come in any order.
var ErrUnresolved = errors.New("no license is known that this event concerns")

// licenseOf finds the license and account of a license event. Where the event spells out both, nothing is looked up.
func (h *Handler) licenseOf(ctx context.Context, e event) (license, account string, err error) {
	if e.license.exact && e.account != "" {
		return e.license.arn, e.account, nil
	}
	if e.license.odd { // it need not be the one that its agreement happens to show
		return "", "", fmt.Errorf("%w: it spells its license in a way that is not known", ErrUnresolved)
	}
	members, err := h.members(ctx, e)
	if err != nil {
		return "", "", err
	}
	var found []metering.Subscriber
	for _, s := range members {
		if e.names(s) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		return found[0].License, found[0].Account, nil
	case e.license.arn != "" && e.account != "":
		return e.license.arn, e.account, nil
	case len(found) > 1:
		return "", "", fmt.Errorf("%w: it could be any of %d licenses of its agreement", ErrUnresolved, len(found))
	}
	return "", "", fmt.Errorf("%w: it does not name one in full, and its agreement shows none", ErrUnresolved)
}

// names reports whether a subscriber can be the one that a license event speaks of, as far as that goes.
func (e event) names(s metering.Subscriber) bool {
	switch {
	case e.account != "" && s.Account != e.account:
		return false
	case e.license.exact:
		return s.License == e.license.arn
	case e.license.id != "":
		return licenseID(s.License) == e.license.id
	}
	return true
}

// members are the subscribers of the event's agreement.
func (h *Handler) members(ctx context.Context, e event) (list []metering.Subscriber, err error) {
	if e.agreement == "" {
		return nil, nil
	}
	for s, err := range h.Subscribers.AgreementSubscribers(ctx, e.agreement) {
		if err != nil {
			return list, fmt.Errorf("read the agreement's licenses: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}
