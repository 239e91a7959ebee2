package pipeline

import (
	"errors"
	"fmt"
)

// problems are errors that hold up nothing else. The first maxErrors are told one by one, the others counted: where a table cannot be
// reached, every hour fails alike.
type problems struct {
	list []error
	more int
}

func (p *problems) add(err error) {
	switch {
	case err == nil:
	case len(p.list) < maxErrors:
		p.list = append(p.list, err)
	default:
		p.more++
	}
}

func (p *problems) err() error {
	err := errors.Join(p.list...)
	if p.more > 0 {
		err = errors.Join(err, fmt.Errorf("and %d errors more", p.more))
	}
	return err
}
