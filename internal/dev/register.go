package dev

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/node"
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
	switch {
	case m.options.Observe != nil:
		log = slog.New(registrationStory{m})
	case log == nil:
		log = slog.New(slog.DiscardHandler)
	}
	return &registration.Handler{
		Settings: settings, Customers: client, Profiles: m.store, Subscribers: m.store,
		Metrics: m.counted, Now: m.clock.Now, Log: log,
	}, nil
}

// RegisterStage is the name under which Options.Observe is told of registrations.
const RegisterStage = "register"

// registrationStory tells what became of each registration, by the node's clock, of what the registration logs: no word that a buyer typed.
type registrationStory struct{ m *Machine }

func (registrationStory) Enabled(context.Context, slog.Level) bool { return true }
func (s registrationStory) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s registrationStory) WithGroup(string) slog.Handler          { return s }

func (s registrationStory) Handle(_ context.Context, r slog.Record) error {
	logged := make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		logged[a.Key] = a.Value.String()
		return true
	})
	if text := registrationWords(logged); text != "" {
		s.m.options.Observe(node.Event{At: s.m.clock.Now(), Stage: RegisterStage}, text)
	}
	return nil
}

// registrationWords are those of a registration; none of a first click that has only brought the form.
func registrationWords(logged map[string]string) string {
	who := "buyer"
	if account := logged["account"]; account != "" {
		who += " " + account
	}
	if license := logged["license"]; license != "" {
		who += " of license " + license
	}
	switch outcome := logged["outcome"]; outcome {
	case "Details":
		return ""
	case "Registered":
		return who + " registered"
	case "NoLicenseYet":
		return who + " has no license yet: the details are kept"
	case "TryAgain", "ContactSeller":
		text := fmt.Sprintf("%s not registered: %s, reference %s", who, logged["cause"], logged["reference"])
		if why := strings.Join(strings.Fields(logged["error"]), " "); why != "" {
			text += ": " + why
		}
		return text
	default:
		return who + " refused: " + outcome
	}
}
