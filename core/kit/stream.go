package kit

import (
	"context"
	"fmt"

	"github.com/yett-dev/yett/core/wasmhost"
)

// stream scans a text in pieces, as the gateway does with a text that arrives in pieces. That all of the text is released
// again, in order, is part of the outcome.
func stream(ctx context.Context, m *wasmhost.Module, pieces ...string) (o outcome) {
	s := m.NewStream()
	total, released := 0, 0
	for i, piece := range pieces {
		p, err := s.Write(ctx, piece, i == len(pieces)-1)
		if err != nil {
			return outcome{err: err}
		}
		if p.Start != released {
			return outcome{err: fmt.Errorf("the stream released byte %d after byte %d", p.Start, released)}
		}
		total += len(piece)
		released += len(p.Text)
		o.findings = append(o.findings, p.Findings...)
		o.fuel += p.Fuel
	}
	if released != total {
		return outcome{err: fmt.Errorf("the stream released %d of %d bytes", released, total)}
	}
	return o
}
