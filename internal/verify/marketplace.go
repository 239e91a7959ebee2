package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// marketplaceCases are those that need AWS Marketplace, and a buyer's license.
func (p *plan) marketplaceCases() []*Case { return []*Case{p.undefinedDimension(), p.billedUnit()} }

// unbillable is why a case that needs a buyer's license is skipped, or empty.
func (p *plan) unbillable() string {
	switch {
	case p.DryRun:
		return "a dry run does not ask AWS Marketplace"
	case p.notSent() != "":
		return p.notSent()
	case p.Buyer == nil:
		return "AWS Marketplace says it of an active license alone: --license, --account and --dimension name one"
	}
	return ""
}

func (p *plan) undefinedDimension() *Case {
	c := &Case{Name: "undefined-dimension", What: "a dimension that the product does not have is rejected, and stops no other record"}
	if c.Why = p.unbillable(); c.Why != "" {
		return c
	}
	g := metering.Group{License: p.Buyer.License, Account: p.Buyer.Account, Dimension: dimension(p.ID, c.Name), Hour: p.hour}
	if p.Direct() {
		g.Hour = p.sent
	}
	rejected := want{at: groupRecord(g), ends: []end{{metering.RejectedClientSide, metering.ExceptionDimension}}, units: 1}
	if p.Direct() {
		c.steps = []step{{records: []metering.Record{metering.NewRecord(g, 1)}, wants: []want{rejected}, wait: submitted}}
		return c
	}
	rows := rowsOf(g, 1)
	c.steps = []step{{rows: rows, wants: append(aggregated(rows), rejected), wait: p.billed(p.hour)}}
	return c
}

// billedUnit bills one unit of the buyer, in an hour that holds nothing of the dimension yet. Its row and record stay, and bear no mark:
// they are books. Then the record is put again with another quantity, which AWS Marketplace refuses, and put back.
func (p *plan) billedUnit() *Case {
	c := &Case{Name: "billed-unit", What: "one unit of the buyer is billed, and another quantity of the same hour is refused as a duplicate"}
	if c.Why = p.unbillable(); c.Why != "" {
		return c
	}
	c.Expected = "record Success (1), then DuplicateRecord (2)"
	c.steps = []step{{do: p.bill}, {do: again}}
	return c
}

// bill writes the unit. The step's wants are known when its hour is.
func (p *plan) bill(ctx context.Context, r *run, c *Case) error {
	g := metering.Group{License: p.Buyer.License, Account: p.Buyer.Account, Dimension: p.Buyer.Dimension}
	free := false
	g.Hour = p.hour
	if p.Direct() {
		g.Hour = p.sent
	}
	for ; !free && p.Rules.Billable(g.Hour, p.now.Add(2*open)); g.Hour-- {
		var err error
		if free, err = p.unused(ctx, g); err != nil {
			return err
		}
		if free {
			break
		}
	}
	if !free {
		c.Result, c.Why = Skipped, "each hour that can be billed holds usage of this dimension already"
		return nil
	}
	record := groupRecord(g)
	c.Kept = &g
	s := c.step()
	s.wants, s.wait = []want{{at: record, ends: []end{{metering.Success, ""}}, units: 1}}, submitted
	r.remember(g.License, g.RecordKey(), true, g.Hour.String())
	if p.Direct() {
		made, err := p.Records.CreateRecord(ctx, metering.NewRecord(g, 1))
		if err == nil && !made.Done {
			err = errors.New("the buyer's hour has just got a record; run it again")
		}
		return err
	}
	s.wait = p.billed(g.Hour)
	flush := metering.NewFlush(g, g.Hour.Second(0), 1, dimension(p.ID, c.Name))
	flush.At = p.now
	r.remember(g.License, flush.SortKey(), false, g.Hour.String())
	out := p.Rows.FlushRows(ctx, []metering.Flush{flush})[0]
	if out.Err == nil && !out.Done {
		out.Err = errors.New("the buyer's row has changed meanwhile; run it again")
	}
	return out.Err
}

// unused reports whether a group holds nothing.
func (p *plan) unused(ctx context.Context, g metering.Group) (bool, error) {
	if record, err := p.Records.Record(ctx, g); err != nil || record != nil {
		return false, err
	}
	if p.Direct() {
		return true, nil
	}
	for _, err := range p.Rows.GroupRows(ctx, g) {
		return false, err
	}
	return true, nil
}

// again puts the billed record once more, with a unit more than was billed.
func again(ctx context.Context, r *run, c *Case) error {
	at := c.steps[0].wants[0].at
	g, _ := metering.ParseRecordKey(at.license, at.sort)
	billed, err := r.Records.Record(ctx, g)
	if err != nil || billed == nil {
		return errors.Join(err, errors.New("the billed record is gone"))
	}
	second := metering.NewRecord(g, billed.Quantity.N+1)
	second.Manifest = billed.Manifest // its rows stay covered meanwhile
	r.undo = func(ctx context.Context) error {
		if err := r.Records.PutRecord(ctx, *billed); err != nil {
			return fmt.Errorf("put the billed record %s of %s back: %w", at.sort, at.license, err)
		}
		return nil
	}
	s := c.step()
	s.wants, s.wait = []want{{at: at, ends: []end{{metering.DuplicateRecord, ""}}, units: 2}}, submitted
	return r.Records.PutRecord(ctx, second)
}

// pageTime is how long the registration page may take.
const pageTime = 10 * time.Second

// registrationPage asks the page as a browser does that comes without a token.
func (p *plan) registrationPage() *Case {
	c := &Case{Name: "registration-page", What: "the registration page answers"}
	if p.Page == "" {
		c.Why = "the stack names no address of it"
		return c
	}
	c.steps = []step{{do: func(ctx context.Context, r *run, c *Case) error {
		c.Expected = "200 OK from " + p.Page
		ctx, cancel := context.WithTimeout(ctx, pageTime)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Page, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Accept", "text/html")
		client := r.HTTP
		if client == nil {
			client = http.DefaultClient
		}
		response, err := client.Do(request)
		if err != nil {
			c.Result, c.Why = Skipped, fmt.Sprintf("there is no way to it from here: %v", err)
			return nil
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body) // what is in it is of no concern
		c.Found, c.Result = response.Status, Passed
		if response.StatusCode != http.StatusOK {
			c.Result = Failed
		}
		return nil
	}}}
	return c
}
