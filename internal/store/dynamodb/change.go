package dynamodb

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
)

// change is what an UpdateItem does and on what condition. Every attribute is named through a placeholder, since some of the
// names are reserved words of the service.
type change struct {
	sets, removes, adds []string
	where               []string
	names               map[string]string
	values              raw
}

func newChange() *change {
	return &change{names: make(map[string]string), values: make(raw)}
}

// existing is a change of an item that is there.
func (t *table) existing() *change {
	c := newChange()
	c.need("attribute_exists(" + c.name(t.sortKey) + ")")
	return c
}

func (c *change) name(attribute string) string {
	placeholder := "#" + attribute
	c.names[placeholder] = attribute
	return placeholder
}

func (c *change) value(v types.AttributeValue) string {
	placeholder := ":v" + strconv.Itoa(len(c.values))
	c.values[placeholder] = v
	return placeholder
}

func (c *change) set(attribute string, v types.AttributeValue) {
	c.sets = append(c.sets, c.name(attribute)+" = "+c.value(v))
}

func (c *change) setOnce(attribute string, v types.AttributeValue) {
	name := c.name(attribute)
	c.sets = append(c.sets, name+" = if_not_exists("+name+", "+c.value(v)+")")
}

func (c *change) add(attribute string, v types.AttributeValue) {
	c.adds = append(c.adds, c.name(attribute)+" "+c.value(v))
}

func (c *change) remove(attribute string) {
	c.removes = append(c.removes, c.name(attribute))
}

// stamp gives the item its audit times.
func (c *change) stamp(at time.Time) {
	when := text(at.UTC().Format(time.RFC3339))
	c.setOnce(metering.AttrCreatedAt, when)
	c.set(metering.AttrUpdatedAt, when)
}

func (c *change) need(condition string) { c.where = append(c.where, condition) }

func (c *change) exists(attribute string) { c.need("attribute_exists(" + c.name(attribute) + ")") }

func (c *change) absent(attribute string) { c.need("attribute_not_exists(" + c.name(attribute) + ")") }

func (c *change) equals(attribute string, v types.AttributeValue) {
	c.need(c.name(attribute) + " = " + c.value(v))
}

// absentOr needs that the attribute is not there or that the condition on it holds.
func (c *change) absentOr(attribute, condition string) {
	c.need("(attribute_not_exists(" + c.name(attribute) + ") OR " + condition + ")")
}

// isType is the condition that the attribute has a type, named as the service names it: S, N, SS, L.
func (c *change) isType(attribute, kind string) string {
	return "attribute_type(" + c.name(attribute) + ", " + c.value(text(kind)) + ")"
}

// unchanged needs that the attributes are exactly as they were read.
func (c *change) unchanged(r raw, attributes ...string) {
	for _, attribute := range attributes {
		if v, ok := r[attribute]; ok {
			c.equals(attribute, v)
		} else {
			c.absent(attribute)
		}
	}
}

// setQuantity sets a number, or removes it where there is none and held says that a number stands there. One of another type is not
// ours to remove.
func (c *change) setQuantity(attribute string, q metering.Quantity, held bool) {
	switch {
	case q.Whole:
		c.set(attribute, numberOf(q.N))
	case held:
		c.remove(attribute)
	}
}

// numberOrAbsent needs, for a change that removes a number without having read it, that nothing else stands in its place.
func (c *change) numberOrAbsent(attribute string, q metering.Quantity) {
	if !q.Whole {
		c.absentOr(attribute, c.isType(attribute, "N"))
	}
}

func (c *change) setText(attribute, s string) {
	if s == "" {
		c.remove(attribute)
	} else {
		c.set(attribute, text(s))
	}
}

func (c *change) condition() string { return strings.Join(c.where, " AND ") }

func (c *change) update() string {
	var clauses []string
	for _, clause := range []struct {
		verb  string
		parts []string
	}{{"SET", c.sets}, {"REMOVE", c.removes}, {"ADD", c.adds}} {
		if len(clause.parts) > 0 {
			clauses = append(clauses, clause.verb+" "+strings.Join(clause.parts, ", "))
		}
	}
	return strings.Join(clauses, " ")
}
