package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// TestArchivedThenRemoved: the real program gives what is to go to audit.archive, and is killed in between. No record
// is missing then: what the log has no more is in the archive, verifiable alone. It waits for retention, which looks
// once a minute.
func TestArchivedThenRemoved(t *testing.T) {
	if os.Getenv("YETT_FULL") == "" {
		t.Skip("YETT_FULL is not set: it waits for a minute")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const script = `#!/bin/sh
set -e
cat >"$1/.$YETT_ARCHIVE_NAME"
mv "$1/.$YETT_ARCHIVE_NAME" "$1/$YETT_ARCHIVE_NAME"
`
	sum := sha256.Sum256([]byte(script))
	for name, text := range map[string]string{"take.sh": script,
		"yett.yaml": fmt.Sprintf(`version: 1
server: {listen: "127.0.0.1:0", metrics: "off"}
console: {enabled: false}
storage: {ballast: 0B, min_free: 32MiB}
audit:
  args: full
  retention: {max_bytes: 1MiB}
  archive: {exec: take.sh, digest: "sha256:%s", args: [%q], paths: {write: [%q]}}
chains: {authorize: {steps: [{name: house, rules: [rules.yaml]}]}}
`, hex.EncodeToString(sum[:]), at("archive"), at("archive")),
		"rules.yaml": "rules: [{id: reads, tools: [\"files/*\"], effect: permit}]\n"} {
		if err := testkit.WriteProgram(at(name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, at("yett.yaml"), at("data"))
	_, key := s.madeKey("agent", "--agents", "*")
	atOnce(4, 320, func(i int) {
		words := make([]byte, 60<<10)
		for j := range words {
			words[j] = 'a' + byte(rand.IntN(26))
		}
		a, err := s.send("POST", "/v1/authorize", key, fmt.Sprintf(`{"agent_id":"a","tool_id":"files/read","args":{"t":%q}}`,
			words))
		if err != nil || a.str("effect") != "PERMIT" {
			t.Errorf("%v: %.300s", err, a.body)
		}
	})
	files := func() []string {
		all, err := filepath.Glob(at("archive/yett-*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	look, end := time.NewTicker(20*time.Millisecond), time.After(90*time.Second)
	defer look.Stop()
	for len(files()) == 0 {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("nothing is archived\n%s", s.stderr)
		}
	}
	s.kill() // the record of the removal may be there or not
	s = serveOn(t, at("yett.yaml"), at("data"))
	out, err := exec.Command(e2e.Binary(t), "audit", "archive", "--data", at("data"), "--to",
		at("archive")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "has records 1 to ") {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	s.stop()
	if out, err := exec.Command(e2e.Binary(t), "store", "check", "--data", at("data")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
