package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/yett-dev/yett/sdk"
)

// ErrNoScanner says that a text cannot be masked because the chain has no scanner that could.
var ErrNoScanner = errors.New("no scanner is configured")

// Mask takes out of a text everything that any enforcing scanner of the chain finds, whatever the operator's actions, tool
// patterns and on_error say of outputs: it is for what we keep ourselves. An error means the text must not be kept.
func (c *ScanChain) Mask(ctx context.Context, in *Input) (string, error) {
	end := c.Now().Add(c.Budget)
	var found []sdk.Finding
	ran := false
	hits := c.read(in.Text)
	defer c.done(hits)
	for i := range c.Steps {
		s := c.Steps[i]
		if s.Shadow {
			continue
		}
		s.Match = Match{}
		ran = true
		rec, some := c.scan(ctx, &s, in, hits, end)
		if rec.Err != nil {
			return "", fmt.Errorf("scanner %s did not run to its end: %w", s.Name, rec.Err)
		}
		found = append(found, some...)
	}
	if !ran {
		return "", ErrNoScanner
	}
	found = c.judge(in, found)
	for i := range found {
		found[i].Action, found[i].Replacement = sdk.Redact, "["+found[i].Kind+"]"
	}
	return redact(in.Text, found)
}
