package wrap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTicket(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "claude-code.json")
	want := Ticket{Command: "echo 'é' \"<\n", Shell: "sh", Tool: "Bash", AgentID: "a", SessionID: "s"}
	id, err := Issue(file, want)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{Tickets(file): 0o700, filepath.Join(Tickets(file), id): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	got, err := Take(file, id, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want.Expires, want.Digest = got.Expires, got.Digest
	if *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := Take(file, id, time.Now()); err == nil || !strings.Contains(err.Error(), "was used") {
		t.Errorf("a second time: %v", err)
	}
}

// TestTicketOnce holds that of many that use a ticket at once, one may.
func TestTicketOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "h.json")
	id, err := Issue(file, Ticket{Command: "x", Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, err := Take(file, id, time.Now()); err == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d have used one ticket", n)
	}
}

func TestTicketRefused(t *testing.T) {
	t.Parallel()
	whole := Ticket{Command: "x", Shell: "sh", Tool: "t", Expires: time.Now().Add(TicketLife).UTC().Truncate(time.Second)}
	whole.Digest = whole.sum()
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("ab", 16)
	for name, row := range map[string]struct {
		id, text string
		mode     os.FileMode
		after    time.Duration
		want     string
	}{
		"whole":            {id, string(text), 0o600, 0, ""},
		"at its end":       {id, string(text), 0o600, TicketLife - 2*time.Second, ""},
		"expired":          {id, string(text), 0o600, TicketLife + time.Second, "has expired"},
		"from the future":  {id, string(text), 0o600, -time.Hour, "has expired"},
		"torn":             {id, string(text[:40]), 0o600, 0, "broken"},
		"empty":            {id, "", 0o600, 0, "broken"},
		"changed":          {id, strings.Replace(string(text), `"x"`, `"y"`, 1), 0o600, 0, "not whole"},
		"another member":   {id, strings.Replace(string(text), `{`, `{"a":1,`, 1), 0o600, 0, "unknown member"},
		"a member twice":   {id, strings.Replace(string(text), `{`, `{"command":"y",`, 1), 0o600, 0, "there twice"},
		"no object":        {id, `[]`, 0o600, 0, "expected an object"},
		"of others":        {id, string(text), 0o640, 0, "not the user's alone"},
		"too large":        {id, string(text) + strings.Repeat(" ", maxTicket), 0o600, 0, "cannot read"},
		"a path":           {"../" + id, string(text), 0o600, 0, "32 hexadecimal"},
		"capitals":         {strings.ToUpper(id), string(text), 0o600, 0, "32 hexadecimal"},
		"no id":            {"", string(text), 0o600, 0, "32 hexadecimal"},
		"another's":        {strings.Repeat("cd", 16), string(text), 0o600, 0, "missing or was used"},
		"a directory open": {id, string(text), 0o600, 0, "chmod 700"},
	} {
		file := filepath.Join(t.TempDir(), "h.json")
		if err := os.Mkdir(Tickets(file), 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(Tickets(file), id)
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		if name == "a directory open" {
			if err := os.Chmod(Tickets(file), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Take(file, row.id, time.Now().Add(row.after))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
		left, _ := os.ReadDir(Tickets(file))
		used := row.id == id && name != "a directory open" && name != "too large"
		if used == (len(left) == 1) {
			t.Errorf("%s: %d tickets are left", name, len(left))
		}
	}
}

// TestIssueSweeps holds that tickets nobody used do not pile up, and that commands which JSON cannot hold get none.
func TestIssueSweeps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "h.json")
	old, err := Issue(file, Ticket{Command: "x", Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(Tickets(file), old), past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := Issue(file, Ticket{Command: "y", Tool: "t"}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(Tickets(file)); err != nil || len(left) != 1 {
		t.Errorf("%d tickets, %v", len(left), err)
	}
	if _, err := Issue(file, Ticket{Command: "\xff", Tool: "t"}); err == nil {
		t.Error("a command that is no UTF-8 has a ticket")
	}
	if _, err := Issue(file, Ticket{Command: strings.Repeat("x", maxTicket), Tool: "t"}); err == nil {
		t.Error("a command that is too large has a ticket")
	}
}

// FuzzTicket holds that whatever is read as a ticket is whole.
func FuzzTicket(f *testing.F) {
	whole := Ticket{Command: "x", Tool: "t"}
	whole.Digest = whole.sum()
	text, err := json.Marshal(whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"command":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseTicket(text); err == nil && (got.Digest != got.sum() || got.Command == "" || got.Tool == "") {
			t.Errorf("%s is %+v", text, got)
		}
	})
}
