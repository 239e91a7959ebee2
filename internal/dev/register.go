package dev

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/simulator"
)

// registerPath is where AWS Marketplace would send a buyer's browser. Its requests come from AWS's pages: it is the one endpoint that
// other sites' pages may post to.
const registerPath = "/register"

// CheckRegistration says what is wrong with the settings of the registration.
func CheckRegistration(o Options) error { return o.registration().Check() }

func (o Options) registration() registration.Settings {
	s := o.Registration
	s.ProductCode, s.Region = cmp.Or(o.ProductCode, simulator.DefaultProductCode), region
	return s
}

// registrationPage is the page for a buyer's first click, over the node's own store and the Marketplace.
func (m *Machine) registrationPage(client *marketplace.Client) (http.Handler, error) {
	settings := m.options.registration()
	if err := settings.Check(); err != nil {
		return nil, fmt.Errorf("set up the registration: %w", err)
	}
	log := m.options.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &registration.Handler{
		Settings: settings, Customers: client, Profiles: m.store, Subscribers: m.store,
		Metrics: &m.metrics, Now: m.clock.Now, Log: log,
	}, nil
}
