package costs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Class is what requests are counted by.
type Class struct {
	Stage     string `json:"stage"`     // handler name; seller writes the rows, event source polls a queue for a function
	Operation string `json:"operation"` // as the API names it; Invoke and PutLogEvents stand for what Lambda does
	Resource  string `json:"resource"`  // kind and name, such as index usage/metering_pending
}

func (c Class) String() string { return c.Stage + " " + c.Operation + " " + c.Resource }

// Tally is what was counted of a class.
type Tally struct {
	Requests   int     `json:"requests"`
	Entries    int     `json:"entries,omitempty"`    // of the requests: messages, records, puts of a batch
	Items      int     `json:"items,omitempty"`      // of the answers: items of a page, messages
	Units      float64 `json:"units,omitempty"`      // read or write units of the table or index; requests as SQS bills them
	IndexUnits float64 `json:"indexUnits,omitempty"` // write units of the indexes beside those of the table
	Bytes      int     `json:"bytes,omitempty"`      // of messages; of the log
}

// add adds another tally.
func (t *Tally) add(o Tally) {
	t.Requests += o.Requests
	t.Entries += o.Entries
	t.Items += o.Items
	t.Units += o.Units
	t.IndexUnits += o.IndexUnits
	t.Bytes += o.Bytes
}

// Row is a class with its tally.
type Row struct {
	Class
	Tally
}

// Section is one play that was counted, in the order of its classes.
type Section []Row

// section orders what was counted.
func section(of map[Class]*Tally) Section {
	var s Section
	for c, t := range of {
		s = append(s, Row{c, *t})
	}
	slices.SortFunc(s, func(a, b Row) int { return cmp.Compare(a.String(), b.String()) })
	return s
}

// tolerance is how much a figure may differ from the one that is written down. It is there for logs and for batches that
// are cut otherwise: a request more for each row or group is more than that.
const tolerance = 0.10

// Against says what of the section differs from what is written down: a class that is new, one that grew by more than a tenth
// and by how much, and one that fell as far or is gone, so that it cannot grow back unseen.
func (s Section) Against(written Section) (problems []string) {
	was := make(map[Class]Tally)
	for _, r := range written {
		was[r.Class] = r.Tally
	}
	for _, r := range s {
		before, there := was[r.Class]
		delete(was, r.Class)
		if !there {
			problems = append(problems, fmt.Sprintf("%s is new: %d requests", r.Class, r.Requests))
			continue
		}
		for _, f := range []struct {
			name     string
			was, now float64
		}{
			{"requests", float64(before.Requests), float64(r.Requests)},
			{"entries", float64(before.Entries), float64(r.Entries)},
			{"items", float64(before.Items), float64(r.Items)},
			{"units", before.Units, r.Units},
			{"index units", before.IndexUnits, r.IndexUnits},
			{"bytes", float64(before.Bytes), float64(r.Bytes)},
		} {
			verb := "grew"
			if f.now < f.was {
				verb = "fell"
			}
			if d := f.now - f.was; d > f.was*tolerance || -d > f.was*tolerance {
				problems = append(problems, fmt.Sprintf("%s: %s %s by %s from %v to %v", r.Class, f.name, verb, percent(d, f.was), f.was, f.now))
			}
		}
	}
	for _, r := range written {
		if _, gone := was[r.Class]; gone {
			problems = append(problems, fmt.Sprintf("%s is gone: it had %d requests", r.Class, r.Requests))
		}
	}
	return problems
}

func percent(d, of float64) string {
	if of == 0 {
		return "all of it"
	}
	return fmt.Sprintf("%.1f %%", max(d, -d)/of*100)
}

// sum adds up a figure of the classes that match.
func (s Section) sum(match func(Class) bool, figure func(Tally) float64) (n float64) {
	for _, r := range s {
		if match(r.Class) {
			n += figure(r.Tally)
		}
	}
	return n
}

// Book is all that is written down in testdata/requests.json: sections by name.
type Book map[string]Section

// encode writes a class a line, so that a change shows as what it is.
func (b Book) encode() ([]byte, error) {
	var out bytes.Buffer
	names := make([]string, 0, len(b))
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	out.WriteString("{\n")
	for i, name := range names {
		fmt.Fprintf(&out, "\t%q: [\n", name)
		for j, r := range b[name] {
			line, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			out.WriteString("\t\t" + string(line) + comma(j, len(b[name])) + "\n")
		}
		out.WriteString("\t]" + comma(i, len(names)) + "\n")
	}
	out.WriteString("}\n")
	return out.Bytes(), nil
}

func comma(i, n int) string {
	if i == n-1 {
		return ""
	}
	return ","
}
