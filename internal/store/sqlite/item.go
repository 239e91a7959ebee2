package sqlite

import (
	"database/sql/driver"
	"maps"

	"github.com/awsmp/metering/internal/metering"
)

// The tables subscriber and profile hold few items: each is its key and, in JSON, its attributes as they are named on AWS.

// item is the one that a query of the columns license, account and attributes finds; nil where there is none.
func (c *conn) item(query, license, account string) (item metering.Item, err error) {
	err = c.query(query, []any{license, account}, func(v []driver.Value) (bool, error) {
		item, err = itemOf(v)
		return false, err
	})
	return item, err
}

// itemOf makes an item of the columns license, account and attributes.
func itemOf(v []driver.Value) (metering.Item, error) {
	item := metering.Item{}
	if err := fromJSON(text(v[2]), &item); err != nil {
		return nil, err
	}
	item[metering.AttrLicense], item[metering.AttrAccount] = text(v[0]), text(v[1])
	return item, nil
}

// putItem writes an item by a statement that takes license, account and attributes.
func (c *conn) putItem(statement string, item metering.Item) error {
	rest := maps.Clone(item)
	delete(rest, metering.AttrLicense)
	delete(rest, metering.AttrAccount)
	attributes, err := jsonText(rest)
	if err != nil {
		return refused(err)
	}
	_, err = c.exec(statement, item[metering.AttrLicense], item[metering.AttrAccount], attributes)
	return err
}
