package subscribers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// A pump goes on over a reload. What it remembers of masked texts must not: the scanners may be others by then.
func TestPumpsLearnOfAReload(t *testing.T) {
	gen := &loaded.Generation{}
	gen.Policy = "one"
	f := New(Settings{InForce: func() *loaded.Generation { return gen }})
	set := f.settings(config.Subscriber{Use: "siem"}, nil)
	before := set.Policy()
	gen = &loaded.Generation{}
	gen.Policy = "two"
	if now := set.Policy(); before != "one" || now != "two" {
		t.Errorf("the policy was %s and is %s", before, now)
	}
}

// A refusal is the disk's, the moment's, or that of the field that was asked for.
func TestRefusal(t *testing.T) {
	s := &Subscriber{Name: "siem"}
	for _, c := range []struct {
		err   error
		code  sdk.Code
		field string
	}{
		{feed.ErrClosed, sdk.CodeConflict, ""},
		{fmt.Errorf("moving: %w", sdk.Errf(sdk.CodeAuditUnavailable, "the disk is full")), sdk.CodeAuditUnavailable, ""},
		{errors.New("it is stuck at no record"), sdk.CodeInvalidField, "from"},
	} {
		var e *sdk.Error
		if err := s.refusal("from", c.err); !errors.As(err, &e) || e.Code != c.code || e.Field != c.field ||
			!strings.Contains(err.Error(), `"siem"`) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	if err := s.refusal("from", nil); err != nil {
		t.Errorf("no error: %v", err)
	}
}

// The names in an error have a limit, and what is left out is said.
func TestWithCursors(t *testing.T) {
	all := map[string]store.Cursor{}
	if got := withCursors(all); got != "no subscriber has one" {
		t.Errorf("none: %s", got)
	}
	all["siem"], all["mail"] = store.Cursor{}, store.Cursor{}
	if got := withCursors(all); got != "these have one: mail, siem" {
		t.Errorf("two: %s", got)
	}
	for i := range maxListed {
		all[fmt.Sprint("s", i)] = store.Cursor{}
	}
	if got := withCursors(all); !strings.HasSuffix(got, " and 2 more") || strings.Count(got, ",") != maxListed-1 {
		t.Errorf("many: %s", got)
	}
}
