package marketplace_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// What a record is reckoned to take in a call bounds what the SDK really sends, and is not far above it: the packer goes by it.
func TestWireSizeBoundsTheBody(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{OpenDoors: true})
	if err != nil {
		t.Fatal(err)
	}
	wire := &wire{client: sim.Client()}
	client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: wire})
	odd := rapid.OneOf(
		rapid.StringN(1, 40, 255),
		rapid.StringOfN(rapid.RuneFrom([]rune("\"\\/<>&\x00\x08\t\n\x7f\u0080\u2028\u2029\ufffdé€𝄞#a ")), 1, 30, 255),
		rapid.SampledFrom([]string{"\xff\xfe", "a\xc3", "\xed\xa0\x80"}), // no UTF-8
	)
	rapid.Check(t, func(t *rapid.T) {
		r := record(odd.Draw(t, "dimension"), rapid.Int64Range(0, metering.MaxQuantity).Draw(t, "quantity"))
		if rapid.Bool().Draw(t, "legacy") {
			r.License, r.CustomerIdentifier = product, odd.Draw(t, "identifier")
		}
		for range rapid.IntRange(0, 6).Draw(t, "allocations") {
			a := metering.Allocation{Quantity: rapid.Int64Range(0, metering.MaxQuantity).Draw(t, "allocated")}
			for range rapid.IntRange(0, 5).Draw(t, "tags") {
				a.Tags = append(a.Tags, metering.Tag{Key: odd.Draw(t, "key"), Value: odd.Draw(t, "value")})
			}
			r.Allocations = append(r.Allocations, a)
		}
		body := func(records ...metering.UsageRecord) string {
			wire.bodies = nil
			_, _ = client.Call(t.Context(), metering.Call{Legacy: r.CustomerIdentifier != "", Records: records}) // refused or not
			if len(wire.bodies) != 1 {
				t.Fatalf("%d bodies", len(wire.bodies))
			}
			return string(wire.bodies[0])
		}
		u := r.Usage()
		size := len(body(u, u)) - len(body(u)) - 1 // less the comma
		if bound := r.WireSize(); size > bound {
			t.Fatalf("%d bytes on the wire, reckoned %d: %s", size, bound, body(u))
		}
		// What is reckoned too much: the member names of the other scheme, shorter numbers, and characters that some
		// encoders escape and this one does not.
		escaped := 0
		for _, s := range texts(u) {
			escaped += 5 * strings.Count(s, "\x7f")
			escaped += 4 * (strings.Count(s, "<") + strings.Count(s, ">") + strings.Count(s, "&") + strings.Count(s, "\u2028") + strings.Count(s, "\u2029"))
			escaped += 6*len(s) - 6*len(strings.ToValidUTF8(s, "")) + 5*strings.Count(s, "\ufffd")
			escaped += 4*strings.Count(s, "\b") + 4*strings.Count(s, "\t") + 4*strings.Count(s, "\n") + 4*strings.Count(s, "\f") + 4*strings.Count(s, "\r")
		}
		if bound := r.WireSize(); bound > size+escaped+100+25*len(u.Allocations) {
			t.Fatalf("%d bytes on the wire, reckoned %d: %s", size, bound, body(u))
		}
	})
}

func texts(u metering.UsageRecord) []string {
	out := []string{u.License, u.Account, u.Identifier, u.Dimension}
	for _, a := range u.Allocations {
		for _, tag := range a.Tags {
			out = append(out, tag.Key, tag.Value)
		}
	}
	return out
}
