package deploy_test

import (
	"net/http"
	"time"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/simulator"
)

// forbidding: the functions' roles lose what they may do, one after the other, so that messages are in all queues when nothing takes them any longer. What
// the lines of the logs name is given back, and dead letters are redriven.
func forbidding(d *drill) {
	labels, group, leaving, comes, clicks := d.buys(0), d.buys(2), d.buys(4), d.buys(7), d.buys(6)
	var allow []func()
	forbid := func(function string, resources ...string) { allow = append(allow, d.forbid(function, resources...)) }
	d.happens(lifecycle.LicenseUpdated, leaving, 3*time.Hour)
	d.happens(lifecycle.LicenseDeprovisioned, leaving, 5*time.Minute)
	d.round(often())
	d.row(labels.group("forbidden", 0), 0, "4")
	forbid(d.name("cleanup"))
	d.round(often("submitter"))
	d.row(group.group("forbidden", 0), 0, "6")
	d.row(leaving.group("forbidden", 3), 0, "7")
	forbid(d.name("aggregator"))
	d.round(often("submitter"))
	forbid(d.name("discoverer"))
	forbid(d.name("submission-expiry"))
	forbid(d.name("submitter"), "deprovisioning-pending-index")
	forbid("awsmp-subscription")
	forbid("awsmp-deprovision-cleanup")
	forbid(d.name("registration"), "aws-marketplace:ResolveCustomer")
	d.happens(lifecycle.LicenseUpdated, comes, time.Minute)
	d.pass(30, often("submitter"))
	d.happens(lifecycle.LicenseUpdated, labels, time.Minute)
	d.pass(33, often("submitter"))
	if status := d.clicks(clicks); status != http.StatusInternalServerError {
		d.t.Errorf("a click is answered with %d", status)
	}
	d.pass(2, often("submitter"))
	alarms := []string{"cleanup-dead-letters", "work-dead-letters", "deprovision-work-dead-letters", "events-dead-letters", "discoverer-errors", "submission-expiry-errors",
		"deprovision-cleanup-errors", "subscription-event-failed", "deprovisioning-lookup-failed", "registration-failed", "registration-errors"}
	d.rings(alarms...)
	found := d.sees(alarms...)
	d.understands(alarms...)
	d.explains(group.group("forbidden", 0), "6")
	for _, back := range allow {
		back()
	}
	for _, alarm := range []string{"cleanup-dead-letters", "work-dead-letters", "deprovision-work-dead-letters", "events-dead-letters"} {
		d.repair(found, alarm, "awsmp dlq redrive")
	}
	d.pass(75, often("submitter"))
	if status := d.clicks(clicks); status != http.StatusOK {
		d.t.Errorf("after the repair a click is answered with %d", status)
	}
	d.quiet(alarms...)
	d.clear(alarms...)
	if s, err := d.subscriber(comes); err != nil || s == nil {
		d.t.Errorf("the event that was redriven: %+v, %v, want its license known", s, err)
	}
}

// deaths: processes die in the middle of their work, and the Marketplace refuses every call. It passes by itself.
func deaths(d *drill) {
	group, comes, clicks := d.buys(2), d.buys(5), d.buys(6)
	d.round(often())
	end := d.sim.Inject(simulator.Fault{Kind: simulator.Disabled})
	d.row(group.group("killed", 0), 0, "8")
	d.record(group.group("away", 0), 3)
	d.dies(d.name("aggregator"), "PutItem")
	d.pass(11, often("submitter"))
	d.happens(lifecycle.LicenseUpdated, comes, time.Minute)
	d.dies("awsmp-subscription", "UpdateItem")
	d.dies(d.name("registration"), "ResolveCustomer")
	if status := d.clicks(clicks); status != http.StatusBadGateway {
		d.t.Errorf("a click is answered with %d", status)
	}
	d.pass(4, often("submitter"))
	alarms := []string{"aggregator-errors", "subscription-errors", "registration-errors", "submitter-errors"}
	d.rings(alarms...)
	d.sees(alarms...)
	d.understands(alarms...)
	d.explains(group.group("killed", 0), "8")
	end()
	d.pass(30, often("submitter"))
	if status := d.clicks(clicks); status != http.StatusOK {
		d.t.Errorf("after the death a click is answered with %d", status)
	}
	d.quiet(alarms...)
	d.clear(alarms...)
}
