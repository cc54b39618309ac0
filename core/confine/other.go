//go:build !linux || (!amd64 && !arm64)

package confine

import (
	"fmt"
	"runtime"
)

// Prepared is a policy that cannot be entered here.
type Prepared struct{ policy *Policy }

// Prepare opens nothing: this build confines nothing.
func Prepare(p *Policy, _ string, _ int) (*Prepared, error) { return &Prepared{p}, p.Check() }

// Bound and Disarm: there are no capabilities here.
func Bound() error  { return nil }
func Disarm() error { return nil }

// Enter says that all is missing.
func (r *Prepared) Enter() ([]Gap, error) {
	gaps := Gaps(r.policy)
	if r.policy.Required {
		return nil, fmt.Errorf("confine: required, and not to be had here: %s", Told(gaps))
	}
	return gaps, nil
}

// Hide does nothing here.
func Hide() error { return nil }

// Hidden is never so here.
func Hidden() bool { return false }

// Gaps are all parts.
func Gaps(*Policy) []Gap {
	why := fmt.Sprintf("plugins are not confined on %s/%s", runtime.GOOS, runtime.GOARCH)
	return []Gap{{PartSeccomp, why}, {PartFiles, why}}
}

// Seal does nothing here.
func Seal() error { return nil }
