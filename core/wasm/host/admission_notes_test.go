package host

import (
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// A module that exports both functions and takes one kind of input says so at every start; that is no failure.
func TestAdmitNotesNothingOfTheOtherKind(t *testing.T) {
	if v, err := newTrial().admit(specOf(guest{scan: i32(0), check: i32(abi.StatusUnsupported)})); err != nil || !v.OK ||
		len(v.Notes) != 0 || !v.Scans || v.Checks {
		t.Errorf("only scans: %+v, %v", v, err)
	}
	if v, err := newTrial().admit(specOf(guest{scan: i32(abi.StatusUnsupported), check: i32(3)})); err != nil ||
		len(v.Notes) != 1 || v.Scans || !v.Checks {
		t.Errorf("only checks, and fails at that: %+v, %v", v, err)
	}
	neither := guest{scan: i32(abi.StatusUnsupported), check: i32(abi.StatusUnsupported)}
	if v, err := newTrial().admit(specOf(neither)); err != nil || len(v.Notes) != 5 || !v.Scans || !v.Checks {
		t.Errorf("takes neither: %+v, %v", v, err)
	}
}
