package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzLoad feeds foreign bytes to everything that reads them: the main file in each format, a drop-in, a rules file and
// an environment variable. Whatever is taken must print to a file that is taken too and means the same.
func FuzzLoad(f *testing.F) {
	list, err := filepath.Glob("testdata/*.*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range list {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte("rules: [{id: a, tools: [\"**\"], effect: defer, expires: 1m}]"), "5")
	}
	f.Add([]byte("version: 1\nplugins: {a: {kind: scanner, builtin: a, config: {n: 1e9, s: \"${env:X}\", d: \"$${\"}}}"),
		[]byte(`{}`), "{depth: 5}")
	f.Fuzz(func(t *testing.T, data, rules []byte, env string) {
		for _, name := range []string{"yett.yaml", "yett.json"} {
			src := Sources{File: name, Files: map[string][]byte{name: data, "conf.d/x.yaml": rules, "rules/house.yaml": rules},
				Env: []string{"YETT__LIMITS__DEPTH=" + env, "X=secret", "YETT__PLUGINS__A__CONFIG__V=" + env}}
			check(t, src)
			delete(src.Files, "conf.d/x.yaml")
			src.Env = nil
			check(t, src)
		}
	})
}

func check(t *testing.T, src Sources) {
	t.Helper()
	c, err := Load(src)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || len(e.Problems) == 0 || err.Error() == "" {
			t.Fatalf("an error that says nothing: %#v", err)
		}
		return
	}
	c.Check()
	if !utf8.Valid(Schema()) {
		t.Fatal("the schema is not text")
	}
	var out bytes.Buffer
	if err := c.Print(&out, true); err != nil {
		t.Fatal(err)
	}
	src.Env = []string{"X=secret"}
	delete(src.Files, "conf.d/x.yaml")
	src.File = "printed.yaml"
	src.Files["printed.yaml"] = out.Bytes()
	again, err := Load(src)
	if err != nil {
		t.Fatalf("what was printed is refused: %v\n%s", err, out.Bytes())
	}
	if d := c.Diff(again); len(d) != 0 {
		t.Fatalf("what was printed means something else: %v\n%s", d, out.Bytes())
	}
	delete(src.Files, "printed.yaml")
}
