package hookfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	bySocket = `{"agent":"codex","socket":"/run/yett/yett.sock","socket_owner":0}`
	byURL    = `{"agent":"codex","url":"https://gate.example:8443","key":"k",` +
		`"pins":["sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]}`
)

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, row := range []struct{ text, want string }{
		{bySocket, ""},
		{byURL, ""},
		{`{"agent":"codex","socket":"/s","socket_owner":1000,"key":"k","agent_id":"me","wait":"0s","pending":"ask",` +
			`"allow":true,"mcp_servers":["a"],"gated_mcp_servers":["b"]}`, ""},
		{`[]`, "expected an object"},
		{`{`, "invalid JSON"},
		{`{"agent":"a","agent":"b"}`, "there twice"},
		{`{"Agent":"codex"}`, `unknown member "Agent"`},
		{`{"agent":1}`, "agent: a number"},
		{strings.Replace(bySocket, `"socket":"/run/yett/yett.sock",`, "", 1), "socket or url is missing"},
		{strings.Replace(bySocket, `"agent":"codex",`, "", 1), "agent is missing"},
		{strings.Replace(bySocket, `,"socket_owner":0`, "", 1), "socket_owner is missing"},
		{strings.Replace(bySocket, `owner":0`, `owner":65534`, 1), "socket_owner is 65534"},
		{strings.Replace(bySocket, `owner":0`, `owner":4294967295`, 1), "socket_owner is 4294967295"},
		{strings.Replace(bySocket, "/run", "run", 1), "clean absolute path"},
		{strings.Replace(bySocket, "/run", "/run/..", 1), "clean absolute path"},
		{strings.Replace(bySocket, "/run", "/"+long, 1), "at most 107"},
		{strings.Replace(byURL, `{`, `{"socket":"/s","socket_owner":0,`, 1), "give one of them"},
		{strings.Replace(byURL, `{`, `{"socket_owner":0,`, 1), "belongs to socket"},
		{strings.Replace(byURL, "https", "http", 1), "expected https"},
		{strings.Replace(byURL, "8443", "8443/v1", 1), "expected https"},
		{strings.Replace(byURL, `"key":"k",`, "", 1), "key is missing"},
		{strings.Replace(byURL, `"k"`, `"k k"`, 1), "printable ASCII"},
		{strings.Replace(byURL, "sha256/4", "sha256/", 1), "pins[0]"},
		{strings.Replace(byURL, "sha256/", "", 1), "pins[0]"},
		{strings.Replace(byURL, `["sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]`, `[]`, 1), "expected 1 to 8"},
		{strings.Replace(bySocket, "{", `{"mcp_url":"http://127.0.0.1:8425",`, 1), ""},
		{strings.Replace(byURL, "{", `{"mcp_url":"http://127.0.0.1:8425",`, 1), "mcp_url: expected https"},
		{strings.Replace(bySocket, "{", `{"mcp_url":"http://10.0.0.1:8425",`, 1), "mcp_url: expected https"},
		{strings.Replace(bySocket, "{", `{"mcp_url":"http://127.0.0.1:8425/mcp",`, 1), "mcp_url: expected https"},
		{strings.Replace(bySocket, "{", `{"mcp_url":"https://yett.example",`, 1), "mcp_pins: expected 1 to 8"},
		{strings.Replace(bySocket, "{", `{"mcp_pins":["x"],`, 1), "mcp_pins: belong to mcp_url"},
		{strings.Replace(bySocket, "{", `{"mcp_url":"http://[::1]:1","mcp_pins":["x"],`, 1), "belong to an https address"},
		{strings.Replace(bySocket, "{", `{"wait":"46s",`, 1), "wait is 46s"},
		{strings.Replace(bySocket, "{", `{"wait":"-1s",`, 1), "wait is -1s"},
		{strings.Replace(bySocket, "{", `{"wait":"soon",`, 1), "a time such as"},
		{strings.Replace(bySocket, "{", `{"pending":"permit",`, 1), "pending: expected"},
		{strings.Replace(bySocket, "{", `{"agent_id":"`+long+`",`, 1), "agent_id has 257"},
		{strings.Replace(bySocket, "{", `{"mcp_servers":[""],`, 1), "mcp_servers[0]"},
	} {
		f, err := Parse([]byte(row.text))
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.text, err)
		case row.want == "":
			text, err := f.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Parse(text); err != nil || !reflect.DeepEqual(again, f) {
				t.Errorf("%s is written as %s: %v", row.text, text, err)
			}
		case err == nil || !strings.Contains(err.Error(), row.want):
			t.Errorf("%s: %v, want %s", row.text, err, row.want)
		}
	}
}

// TestKnown holds that every member can be read: a new one has to be added in both places.
func TestKnown(t *testing.T) {
	n := reflect.TypeFor[File]()
	if n.NumField() != len(known) {
		t.Errorf("%d fields, %d members", n.NumField(), len(known))
	}
	for i := range n.NumField() {
		name, _, _ := strings.Cut(n.Field(i).Tag.Get("json"), ",")
		if !known[name] {
			t.Errorf("%s is not known", name)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hook.json")
	for _, row := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{bySocket, 0o600, ""},
		{bySocket, 0o400, ""},
		{bySocket, 0o620, "written by others"},
		{bySocket, 0o602, "written by others"},
		{strings.Replace(bySocket, "{", `{"key":"k",`, 1), 0o604, "can be read by"},
		{bySocket + strings.Repeat(" ", MaxSize-len(bySocket)), 0o600, ""},
		{bySocket + strings.Repeat(" ", MaxSize-len(bySocket)+1), 0o600, "65536"},
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%d bytes, %v: %v, want %q", len(row.text), row.mode, err, row.want)
		}
	}
	for _, bad := range []string{"hook.json", dir + "/../x", dir, filepath.Join(dir, "none")} {
		if _, err := Load(bad); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// TestOwners holds whose file is trusted by whom.
func TestOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, row := range []struct {
		mode     os.FileMode
		another  bool
		readable bool // where the file is not root's
	}{{0o600, false, true}, {0o644, false, false}, {0o604, false, false}, {0o600, true, false}} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		owner, ok := ownerOf(info)
		if !ok {
			t.Fatal("files have no owners here, so no file is trusted")
		}
		uid := owner
		if row.another {
			uid++
		}
		want := row.readable || owner == 0 // root's files may be read by all: that is how a managed hook works
		if why := unsafe(info, uid); (why == "") != want {
			t.Errorf("%+v, owner %d: %q", row, owner, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(bySocket))
	f.Add([]byte(byURL))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			return
		}
		if file.Socket == "" && (!strings.HasPrefix(file.URL, "https://") || len(file.Pins) == 0) {
			t.Fatalf("a gateway that nothing proves: %s", text)
		}
		if file.Wait != nil && time.Duration(*file.Wait) > MaxWait {
			t.Fatalf("waits for %v", *file.Wait)
		}
		out, err := file.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	})
}
