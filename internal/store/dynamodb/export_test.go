package dynamodb

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
)

// InPages are the subscribers read in pages of so many.
func (s *Subscribers) InPages(limit int32) *Subscribers {
	table := *s.table
	table.options.PageLimit = limit
	return &Subscribers{&table}
}

// RawOf is an item as the service is handed it.
func RawOf(item metering.Item) map[string]types.AttributeValue { return rawOf(item) }
