package wire_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

const (
	hashVectors = "../testdata/vectors/request_hash.json"
	hashMaker   = "../testdata/clients/vectors.py"
)

// hashOf parses a body of POST /v1/actions and hashes it.
func hashOf(t testing.TB, body string) (string, error) {
	t.Helper()
	var doc exact.Doc
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		t.Fatalf("%v: %.300q", err, body)
	}
	v := doc.Root()
	return wire.RequestHash(v.Get("agent_id").Str(), v.Get("tool").Str(), v.Get("operation").Str(), v.Get("params"),
		v.Get("context"))
}

func TestRequestHash(t *testing.T) {
	rest := func(params string) string {
		return `{"agent_id":"a","tool":"t","operation":"o","params":` + params + `,"context":{}}`
	}
	empty := rest("{}")
	for _, tc := range []struct{ name, body, same string }{
		{"the short vector of the contract", `{"agent_id":"agent","context":{},"operation":"get","params":{"url":"https://example.com"},"tool":"http"}`,
			"d3bea0584e035eae7915cbc68b84f5b836b3645cee550cbead714486c8c0b8a2"},
		{"the long vector of the contract", `{"agent_id":"a","tool":"pay","operation":"charge","context":{"b":1,"a":{"z":1,"y":2}},"params":{"amount":1.5,"_k":1,"big":1e21,"l":[1,2.5,"x"],` +
			`"n":1,"neg":-0.0,"nul":null,"small":1e-7,"t":true,"u":"é` + "\u2028\u007f😀" + `"}}`,
			"8d639391fcb0e15adb3e74999e3ee53dc02a63ccf1e33bcea910d92eeefd86fd"},
		{"no params and no context", `{"agent_id":"a","tool":"t","operation":"o"}`, empty},
		{"null params and context", `{"agent_id":"a","tool":"t","operation":"o","params":null,"context":null}`, empty},
		{"members that are not hashed", `{"agent_id":"a","tool":"t","operation":"o","params":{},"context":{},"_x":1,"session_id":"s"}`, empty},
		{"floats that are whole", rest(`{"a":[1.0,1e0,0.1e1,100e-2]}`), rest(`{"a":[1,1,1,1]}`)},
		{"every zero", rest(`{"a":[-0,-0.0,0.0,0e9,1e-400]}`), rest(`{"a":[0,0,0,0,0]}`)},
		{"floats are doubles", rest(`{"a":9007199254740993.0}`), rest(`{"a":9007199254740992}`)},
		{"no exponent", rest(`{"a":[1.5e3,12e-4,1E+2]}`), rest(`{"a":[1500,0.0012,100]}`)},
		{"escapes and spaces", rest("{ \"\\u0061\" : \"\\/\\u00e9\\ud83d\\ude00\" }"), rest(`{"a":"/é😀"}`)},
		{"order of names", rest(`{"b":1,"a":2}`), rest(`{"a":2,"b":1}`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := hashOf(t, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.same
			if strings.HasPrefix(want, "{") {
				if want, err = hashOf(t, want); err != nil {
					t.Fatal(err)
				}
			}
			if got != want {
				t.Errorf("%s\n got %s\nwant %s", tc.body, got, want)
			}
		})
	}
}

// Two different requests must not look like one.
func TestRequestHashDiffers(t *testing.T) {
	seen := map[string]string{}
	for _, body := range []string{
		`{"agent_id":"a","tool":"t","operation":"o","params":{},"context":{}}`,
		`{"agent_id":"t","tool":"a","operation":"o","params":{},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"","params":{},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":1},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{},"context":{"a":1}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"_a":1},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":"1"},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":[1]},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":null},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":[]},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":{}},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":[[],{}]},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":9007199254740993},"context":{}}`,
		`{"agent_id":"a","tool":"t","operation":"o","params":{"a":9007199254740992},"context":{}}`,
	} {
		h, err := hashOf(t, body)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("one hash for\n%s\n%s", other, body)
		}
		seen[h] = body
	}
}

func TestRequestHashRefuses(t *testing.T) {
	for _, tc := range []struct{ body, field, says string }{
		{`{"params":{"a":[1e400]},"context":{}}`, "params", "params has a number beyond the range of a double, for which there is no request_hash"},
		{`{"params":{},"context":{"a":{"b":-1.8e308}}}`, "context", "context has a number beyond the range of a double, for which there is no request_hash"},
		{`{"params":[],"context":{}}`, "params", "params must be an object, not an array"},
		{`{"params":{},"context":"x"}`, "context", "context must be an object, not a string"},
	} {
		h, err := hashOf(t, tc.body)
		var refused *sdk.Error
		if !errors.As(err, &refused) || refused.Code != sdk.CodeInvalidField || refused.Field != tc.field ||
			refused.Msg != tc.says || h != "" {
			t.Errorf("%s: %q, %v", tc.body, h, err)
		}
	}
}

// hashFile is the golden of bodies and hashes.
type hashFile struct {
	Rows []struct{ Body, Hash string }
}

func readHashes(t testing.TB) (text []byte, file hashFile) {
	t.Helper()
	text, err := os.ReadFile(hashVectors)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rows) != 200 {
		t.Fatalf("%s has %d rows, want 200", hashVectors, len(file.Rows))
	}
	return text, file
}

func TestRequestHashVectors(t *testing.T) {
	_, file := readHashes(t)
	for i, row := range file.Rows {
		if got, err := hashOf(t, row.Body); err != nil || got != row.Hash {
			t.Errorf("row %d: got %s, %v; want %s\n%s", i, got, err, row.Hash, row.Body)
		}
	}
}

// The golden is what the public Python client computes today. GOLDEN=write rewrites it.
func TestRequestHashClients(t *testing.T) {
	clients := os.Getenv("YETT_CLIENTS")
	if clients == "" {
		t.Skip("YETT_CLIENTS is not set: it names the directory that sdk/testdata/clients/install.sh made")
	}
	if !filepath.IsAbs(clients) {
		t.Fatalf("YETT_CLIENTS is %q: give an absolute path", clients)
	}
	if _, err := os.ReadFile(hashMaker); err != nil { // the test cache sees only what is opened here
		t.Fatal(err)
	}
	var msgs strings.Builder
	cmd := exec.Command(filepath.Join(clients, "venv", "bin", "python"), hashMaker)
	cmd.Stderr = &msgs
	made, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", hashMaker, err, &msgs)
	}
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(hashVectors, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := readHashes(t); string(text) != string(made) {
		t.Errorf("%s is not what %s prints: look at the difference, then GOLDEN=write", hashVectors, hashMaker)
	}
}

func FuzzRequestHash(f *testing.F) {
	_, file := readHashes(f)
	for _, row := range file.Rows[:40] {
		f.Add(row.Body)
	}
	f.Add(`{"params":{"a":1e400}}`)
	f.Add(`{"params":{"a":-0},"context":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		var doc exact.Doc
		if doc.Parse(body, exact.DefaultLimits) != nil {
			return
		}
		h, err := hashOf(t, body)
		if err != nil {
			var refused *sdk.Error
			if !errors.As(err, &refused) || refused.Field != "params" && refused.Field != "context" {
				t.Fatalf("not an error about a field: %v", err)
			}
			return
		}
		if raw, err := hex.DecodeString(h); err != nil || len(raw) != 32 {
			t.Fatalf("no SHA-256: %q", h)
		}
		// Another way to write the same request has the same hash.
		v := doc.Root()
		again := `{"context":` + spread(v.Get("context")) + `,"params":` + spread(v.Get("params")) +
			`,"operation":` + quote(v.Get("operation")) + `,"tool":` + quote(v.Get("tool")) + `,"agent_id":` +
			quote(v.Get("agent_id")) + `}`
		if h2, err := hashOf(t, again); err != nil || h2 != h {
			t.Fatalf("%q and %q: %s and %s, %v", body, again, h, h2, err)
		}
	})
}

func quote(v exact.Value) string { return string(exact.AppendString(nil, v.Str())) }

// spread writes a value with its members in the opposite order and spaces between everything.
func spread(v exact.Value) string {
	switch v.Kind() {
	case exact.Absent:
		return "null"
	case exact.String:
		return quote(v)
	case exact.Array:
		var parts []string
		for e := range v.Elements() {
			parts = append(parts, spread(e))
		}
		return "[ " + strings.Join(parts, " , ") + " ]"
	case exact.Object:
		out := ""
		for name, m := range v.Members() {
			if out != "" {
				out = " , " + out
			}
			out = string(exact.AppendString(nil, name)) + " : " + spread(m) + out
		}
		return "{ " + out + " }"
	}
	return v.Raw()
}
