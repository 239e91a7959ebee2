package simulator

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// batchRequest is a BatchMeterUsage request whose shape holds.
type batchRequest struct {
	productCode string
	records     []submitted
}

// submitted is a record together with what its echo needs.
type submitted struct {
	Record
	timestamp   string // as it was written
	hasQuantity bool
	hasAccount  bool
}

func decodeBatch(body []byte) (batchRequest, error) {
	var req batchRequest
	c, err := parse(body)
	if err != nil {
		return req, err
	}
	found := false
	err = c.object(func(name []byte) error {
		var err error
		switch string(name) {
		case "ProductCode":
			if !c.null() {
				req.productCode, err = c.string()
			}
		case "UsageRecords":
			if !c.null() {
				found = true
				req.records, err = decodeRecords(c)
			}
		default:
			c.skip()
		}
		if err != nil {
			return within(string(name), err)
		}
		return nil
	})
	switch {
	case err != nil:
		return req, err
	case !found:
		return req, validation("UsageRecords is missing: it must be a list of 0 to 25 records")
	case len(req.records) > MaxRecordsPerCall:
		return req, validation("UsageRecords has %d records: a call takes at most 25", len(req.records))
	case !wellFormedProductCode(req.productCode):
		return req, validation("ProductCode %q: at most 255 letters, digits and -/=:_.@", req.productCode)
	}
	for i := range req.records {
		req.records[i].ProductCode = req.productCode
	}
	return req, nil
}

func decodeRecords(c *cursor) ([]submitted, error) {
	records := make([]submitted, 0, MaxRecordsPerCall)
	err := c.array(func() error {
		records = append(records, submitted{})
		r := &records[len(records)-1]
		if err := c.object(func(name []byte) error { return r.decodeMember(c, name) }); err != nil {
			return err
		}
		return r.check()
	})
	return records, err
}

func (r *submitted) decodeMember(c *cursor, name []byte) (err error) {
	switch string(name) {
	case "Timestamp":
		if !c.null() {
			r.timestamp, r.Timestamp, err = decodeTime(c)
		}
	case "Dimension":
		if !c.null() {
			r.Dimension, err = c.string()
		}
	case "Quantity":
		if !c.null() {
			r.hasQuantity = true
			r.Quantity, err = decodeQuantity(c)
		}
	case "CustomerAWSAccountId":
		if !c.null() {
			r.hasAccount = true
			r.AccountID, err = c.string()
		}
	case "CustomerIdentifier":
		if !c.null() {
			r.CustomerIdentifier, err = c.string()
		}
	case "LicenseArn":
		if !c.null() {
			r.LicenseARN, err = decodeARN(c)
		}
	case "UsageAllocations":
		if !c.null() {
			r.Allocations, err = decodeAllocations(c)
		}
	default:
		c.skip()
	}
	if err != nil {
		return within("."+string(name), err)
	}
	return nil
}

func (r *submitted) check() error {
	switch length := utf8.RuneCountInString(r.Dimension); {
	case r.timestamp == "":
		return validation(".Timestamp is missing")
	case length == 0 || length > 255:
		return validation(".Dimension has %d characters: it must have 1 to 255", length)
	case r.hasAccount && !wellFormedAccount(r.AccountID):
		return validation(".CustomerAWSAccountId %q: it must be 1 to 255 digits", r.AccountID)
	case utf8.RuneCountInString(r.CustomerIdentifier) > 255:
		return validation(".CustomerIdentifier is longer than 255 characters")
	}
	return nil
}

func decodeARN(c *cursor) (string, error) {
	arn, err := c.string()
	if err == nil && !wellFormedARN(arn) {
		err = validation(" %q is no license ARN: use the one that ResolveCustomer answers", arn)
	}
	return arn, err
}

func decodeQuantity(c *cursor) (int64, error) {
	text, err := c.number()
	if err != nil {
		return 0, err
	}
	if strings.ContainsAny(text, ".eE") {
		return 0, serialization(" %s is not an integer", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxQuantity { // an integer fails to parse only by its size
		return 0, validation(" %s: it must be 0 to 2147483647", text)
	}
	return n, nil
}

// decodeTime reads epoch seconds, which may have a fraction; the Go SDK sends milliseconds in it.
func decodeTime(c *cursor) (string, time.Time, error) {
	if c.peek() == '"' {
		return "", time.Time{}, serialization(" must be a number of seconds since 1970, not a string")
	}
	text, err := c.number()
	if err != nil {
		return "", time.Time{}, err
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(seconds) > 253402300799 { // the last second of the year 9999
		return "", time.Time{}, serialization(" %s is no time: use seconds since 1970, not milliseconds", text)
	}
	return text, time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC(), nil
}

func decodeAllocations(c *cursor) ([]Allocation, error) {
	var list []Allocation
	err := c.array(func() error {
		a, err := decodeAllocation(c)
		list = append(list, a)
		return err
	})
	if err == nil && (len(list) == 0 || len(list) > maxAllocations) {
		err = validation(" has %d allocations: it must have 1 to 2500, or be left out", len(list))
	}
	return list, err
}

func decodeAllocation(c *cursor) (Allocation, error) {
	var a Allocation
	found := false
	err := c.object(func(name []byte) error {
		var err error
		switch string(name) {
		case "AllocatedUsageQuantity":
			if found = !c.null(); found {
				a.Quantity, err = decodeQuantity(c)
			}
		case "Tags":
			if !c.null() {
				a.Tags, err = decodeTags(c)
			}
		default:
			c.skip()
		}
		if err != nil {
			return within("."+string(name), err)
		}
		return nil
	})
	if err == nil && !found {
		err = validation(".AllocatedUsageQuantity is missing")
	}
	return a, err
}

func decodeTags(c *cursor) ([]Tag, error) {
	var tags []Tag
	err := c.array(func() error {
		var t Tag
		err := c.object(func(name []byte) error {
			var err error
			switch string(name) {
			case "Key":
				if !c.null() {
					t.Key, err = c.string()
				}
			case "Value":
				if !c.null() {
					t.Value, err = c.string()
				}
			default:
				c.skip()
			}
			if err != nil {
				return within("."+string(name), err)
			}
			return nil
		})
		if err == nil && (t.Key == "" || t.Value == "") {
			err = validation(": a tag needs a Key and a Value of at least one character")
		}
		tags = append(tags, t)
		return err
	})
	if err == nil && len(tags) == 0 {
		err = validation(" is empty: leave it out for usage without tags")
	}
	return tags, err
}
