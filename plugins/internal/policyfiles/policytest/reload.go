package policytest

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/sdk"
)

// Content is a plugin with texts of policies in its language.
type Content[E policyfiles.Engine] struct {
	New                    func() *policyfiles.Authorizer[E]
	Permit, Forbid, Broken string                             // the last one does not load
	File                   string                             // the name of the file that holds one of them
	Config                 func(dir string) map[string]any    // for a directory with that file
	Text                   func(policy string) map[string]any // for policies in the settings themselves
	Gone                   string                             // a part of why a directory without the file is refused
}

// put writes the file in place, as an editor may.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// look refreshes by hand as the poll does: twice, since newer content must be seen twice.
func look[E policyfiles.Engine](t *testing.T, p *policyfiles.Policies[E],
	last policyfiles.Sighting) policyfiles.Sighting {
	t.Helper()
	return p.Refresh(t.Context(), p.Refresh(t.Context(), last))
}

func effect[E policyfiles.Engine](t *testing.T, a *policyfiles.Authorizer[E]) sdk.Effect {
	t.Helper()
	v, err := a.Check(t.Context(), Call(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return v.Effect
}

// Reload changes the file step by step. What loads comes into force when it was seen twice, and nothing else ever does.
func (c *Content[E]) Reload(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, c.File)
	put(t, file, c.Permit)
	config := c.Config(dir)
	config["reload"] = "0s" // the test is the clock
	a := Configured(t, c.New(), config)
	p := a.InForce()
	expect := func(step string, want sdk.Effect, bad bool) {
		t.Helper()
		if got := effect(t, a); got != want || (p.Refused() != "") != bad {
			t.Fatalf("%s: effect %v, refused %q; want %v, %v", step, got, p.Refused(), want, bad)
		}
	}
	expect("at first", sdk.Permit, false)

	put(t, file, c.Forbid)
	last := p.Refresh(t.Context(), policyfiles.Sighting{})
	expect("seen once", sdk.Permit, false)
	last = p.Refresh(t.Context(), last)
	expect("seen twice", sdk.Deny, false)

	put(t, file, c.Broken)
	last = look(t, p, last)
	expect("content that does not load", sdk.Deny, true)
	if again := p.Refresh(t.Context(), last); again != last || last.Pending || last.Digest == [sha256.Size]byte{} {
		t.Fatalf("refused content is looked at again: %+v", again)
	}

	put(t, file, c.Permit)
	last = look(t, p, last)
	expect("mended", sdk.Permit, false)

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	last = look(t, p, last)
	expect("gone", sdk.Permit, true)
	if why := p.Refused(); !strings.Contains(why, c.Gone) {
		t.Fatalf("the reason is %q", why)
	}

	put(t, file, c.Permit)
	look(t, p, last)
	expect("back", sdk.Permit, false)

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p.Refresh(t.Context(), policyfiles.Sighting{})
	expect("no directory", sdk.Permit, true)
}

// Poll wants the plugin itself to take newer content.
func (c *Content[E]) Poll(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, c.File)
	put(t, file, c.Forbid)
	config := c.Config(dir)
	config["reload"] = "100ms"
	a := Configured(t, c.New(), config)
	if got := effect(t, a); got != sdk.Deny {
		t.Fatal(got)
	}
	put(t, file+".new", c.Permit)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for effect(t, a) != sdk.Permit {
		if limit.Err() != nil {
			t.Fatal("newer content was never taken")
		}
	}
}

// ValidateHasNoEffect wants what is in force to go on after Validate, and nothing to be begun by it.
func (c *Content[E]) ValidateHasNoEffect(t *testing.T) {
	t.Helper()
	a := Configured(t, c.New(), c.Text(c.Permit))
	before := a.InForce()
	if err := a.Validate(t.Context(), Settings(t, c.Text(c.Forbid))); err != nil {
		t.Fatal(err)
	}
	if a.InForce() != before || effect(t, a) != sdk.Permit {
		t.Fatal("validate changed what is in force")
	}
	fresh := c.New()
	if err := fresh.Validate(t.Context(), Settings(t, c.Text(c.Permit))); err != nil {
		t.Fatal(err)
	}
	if fresh.InForce() != nil {
		t.Fatal("validate configured the plugin")
	}
}
