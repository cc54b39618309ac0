package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// look refreshes by hand as the poll does: twice, since newer content must be seen twice.
func look(t *testing.T, p *policies, last sighting) sighting {
	t.Helper()
	return p.refresh(t.Context(), p.refresh(t.Context(), last))
}

func effect(t *testing.T, a *authorizer) sdk.Effect {
	t.Helper()
	v, err := a.check(t.Context(), call(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return v.Effect
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.rego")
	put := func(value string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("package yett.authz\n\ndecision := "+value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("true")
	a := configured(t, map[string]any{"bundle": dir, "reload": "0s"}) // the test is the clock
	p := a.in.Load()
	expect := func(step string, want sdk.Effect, bad bool) {
		t.Helper()
		if got := effect(t, a); got != want || (p.bad.Load() != nil) != bad {
			t.Fatalf("%s: effect %v, refused %v; want %v, %v", step, got, p.bad.Load() != nil, want, bad)
		}
	}
	expect("at first", sdk.Permit, false)

	put("false")
	last := p.refresh(t.Context(), sighting{})
	expect("seen once", sdk.Permit, false)
	last = p.refresh(t.Context(), last)
	expect("seen twice", sdk.Deny, false)

	put("tru")
	last = look(t, p, last)
	expect("content that does not compile", sdk.Deny, true)
	if again := p.refresh(t.Context(), last); again != last || last.pending || last.digest == [sha256.Size]byte{} {
		t.Fatalf("refused content is looked at again: %+v", again)
	}

	put("true")
	last = look(t, p, last)
	expect("mended", sdk.Permit, false)

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	last = look(t, p, last)
	expect("gone", sdk.Permit, true)
	if why := *p.bad.Load(); !strings.Contains(why, "nothing in the policies defines") {
		t.Fatalf("the reason is %q", why)
	}

	put("true")
	look(t, p, last)
	expect("back", sdk.Permit, false)

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p.refresh(t.Context(), sighting{})
	expect("no directory", sdk.Permit, true)
}

// The poll itself takes newer content, and ends with the plugin (goleak).
func TestPoll(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, map[string]string{"p.rego": "package yett.authz\n\ndecision := false\n"})
	a := configured(t, map[string]any{"bundle": dir, "reload": "100ms"})
	if got := effect(t, a); got != sdk.Deny {
		t.Fatal(got)
	}
	writeBundle(t, dir, map[string]string{"p.rego": "package yett.authz\n\ndecision := true\n"})
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for effect(t, a) != sdk.Permit {
		if limit.Err() != nil {
			t.Fatal("newer content was never taken")
		}
	}
}

// Data under another name is not found, as in every bundle. The operator is told.
func TestUnreadData(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, map[string]string{"p.rego": "package yett.authz\n\ndecision := true\n", "roles.json": `{"a": 1}`, "data.json": `{"b": 1}`})
	var out bytes.Buffer
	s := settings(t, map[string]any{"bundle": dir, "reload": "0s"})
	s.Log = slog.New(slog.NewTextHandler(&out, nil))
	a := &authorizer{}
	if err := a.configure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := a.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "files=1 first=/roles.json") {
		t.Errorf("the log says nothing of it: %s", out.String())
	}
	two := map[string]any{"paths": []string{filepath.Join(dir, "roles.json"), filepath.Join(dir, "data.json")}}
	if err := a.validate(t.Context(), settings(t, two)); err == nil || !strings.Contains(err.Error(), "one JSON and one YAML document at most") {
		t.Errorf("two documents for the root: %v", err)
	}
}

// Validate has no effect: what is in force goes on, and nothing is begun.
func TestValidateHasNoEffect(t *testing.T) {
	a := configured(t, authz("decision := true"))
	before := a.in.Load()
	if err := a.validate(t.Context(), settings(t, authz("decision := false"))); err != nil {
		t.Fatal(err)
	}
	if a.in.Load() != before || effect(t, a) != sdk.Permit {
		t.Fatal("validate changed what is in force")
	}
	fresh := &authorizer{}
	if err := fresh.validate(t.Context(), settings(t, authz("decision := true"))); err != nil {
		t.Fatal(err)
	}
	if fresh.in.Load() != nil {
		t.Fatal("validate configured the plugin")
	}
}
