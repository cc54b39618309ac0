package ops

import (
	"context"
	"errors"

	"github.com/yett-dev/yett/core/chain"
)

// Mask is a text of the log without what the scanners in force find in it, for who is given the log. Without any scanner it
// is the text as it is, as approvers see it then too.
func (s *Service) Mask(ctx context.Context, in *chain.Input) (string, error) {
	gen := s.pin()
	defer gen.unpin()
	out, err := gen.Scan.Mask(ctx, in)
	if errors.Is(err, chain.ErrNoScanner) {
		return in.Text, nil
	}
	return out, err
}
