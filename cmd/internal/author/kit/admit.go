package kit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/yett-dev/yett/core/wasm/host"
)

// notAdmitted is a module that was refused, with the reason alone.
type notAdmitted struct{ reason string }

func (e *notAdmitted) Error() string { return e.reason }

// admit lets a module in as the gateway does: in a process of its own, which a module may end without ending ours. The
// note says what it took. An error that is no *notAdmitted is about the machine.
func (s *Settings) admit(ctx context.Context, spec host.Spec) (note string, err error) {
	opts := host.AdmitOptions{CheckConfig: s.CheckConfig}
	if s.CacheDir != "" {
		opts.CacheDir = filepath.Join(s.CacheDir, "verdicts")
	}
	if s.Log != nil {
		opts.Log = func(_ string, level int, line string) { s.Log(level, line) }
	}
	v, err := host.Admit(ctx, opts, spec)
	switch {
	case errors.Is(err, host.ErrNotAdmitted):
		if v.BadConfig && spec.Config == nil {
			v.Reason += "; " + howToSet
		}
		return "", &notAdmitted{v.Reason}
	case err != nil:
		return "", err
	}
	note = fmt.Sprintf("%d ms, %d MiB in a process of its own", v.Took.Milliseconds(), v.MaxRSS>>20)
	if len(v.Notes) > 0 {
		note += "; " + strings.Join(v.Notes, "; ")
	}
	return note, nil
}
