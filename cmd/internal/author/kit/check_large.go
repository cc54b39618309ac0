package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/core/wasm/host"
)

// largeText is one text of the largest size that a gateway hands over unless its operator raises limits.scan_body.
type largeText struct{ name, text string }

func largeTexts() []largeText {
	line := everyday() + "\n"
	return []largeText{
		{"prose", strings.Repeat("All work and no play makes a long text. ", maximalInput/40)},
		{"what tools put out", strings.Repeat(line, maximalInput/len(line))},
	}
}

// maximal scans the largest texts, without hits, and says what came of each. A module may refuse them, or be stopped by
// its limits; whatever breaks the contract is an error.
func (c *conformance) maximal(ctx context.Context) (note string, err error) {
	var notes []string
	hint := ""
	for _, t := range largeTexts() {
		o := whole(ctx, c.sub.first, t.text)
		said := fmt.Sprintf("answered with %d%% of the budget of %d units", share(o.fuel, c.fuel), c.fuel)
		switch {
		case errors.Is(o.err, host.ErrFuel):
			if said, err = c.stopped(ctx, t); err != nil {
				return "", err
			}
			hint = " (limits.fuel or limits.timeout of the plugin set the budget, --fuel tries another)"
		case o.err != nil:
			if said, err = declined(t, o.err); err != nil {
				return "", err
			}
		}
		notes = append(notes, fmt.Sprintf("%s, %d bytes: %s", t.name, len(t.text), said))
	}
	return strings.Join(notes, "; ") + hint, nil
}

// share is a part of all, percent, rounded up.
func share(part, all uint64) uint64 { return (100*part + all - 1) / all }

// declined names what a module may do with a large text beside answering it, and hands back any other error.
func declined(t largeText, err error) (string, error) {
	switch {
	case errors.Is(err, host.ErrInterrupted):
		return fmt.Sprintf("stopped by the clock after %v", patience), nil
	case errors.Is(err, host.ErrStatus), errors.Is(err, host.ErrBuffer), errors.Is(err, host.ErrInput):
		return "refused: " + err.Error(), nil
	}
	return "", fmt.Errorf("%d bytes of %s: %w", len(t.text), t.name, err)
}

// stopped says how much of such a text the budget is enough for: halves of it are tried until one is answered.
func (c *conformance) stopped(ctx context.Context, t largeText) (string, error) {
	said := fmt.Sprintf("stopped, the budget of %d units is enough for ", c.fuel)
	for n := len(t.text) / 2; n > 0; n /= 2 {
		o := whole(ctx, c.sub.first, t.text[:n])
		switch {
		case errors.Is(o.err, host.ErrFuel):
		case o.err != nil:
			less, err := declined(largeText{t.name, t.text[:n]}, o.err)
			return fmt.Sprintf("stopped by the budget of %d units, and %d bytes are %s", c.fuel, n, less), err
		default:
			return said + fmt.Sprintf("about %d bytes", min(2*uint64(n), uint64(n)*c.fuel/max(o.fuel, 1))), nil
		}
	}
	return said + "not one byte", nil
}
