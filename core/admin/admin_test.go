package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Another server could read each of these paths as a different one: none of them is served, tidied or redirected.
func TestPathsThatAreNotExactAreNotServed(t *testing.T) {
	data := t.TempDir()
	s, err := Listen(data, Settings{Version: "v", OwnProc: func() error { return nil }, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	ask := func(method, target string) (int, string) {
		t.Helper()
		c, err := net.Dial("unix", filepath.Join(data, socketDir, "sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method,
			target); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := ask("GET", "/status"); code != http.StatusOK || !strings.Contains(body, `"version":"v"`) {
		t.Fatalf("%d %s", code, body)
	}
	for _, target := range []string{"//status", "/status/", "/./status", "/x/../status", "/%73tatus", "/status;x",
		"/keys/../status", "/keys/%2e%2e/status"} {
		if code, body := ask("GET", target); code != http.StatusNotFound || !strings.Contains(body, `"code":"not_found"`) {
			t.Errorf("GET %s: %d %s", target, code, body)
		}
	}
	if code, body := ask("POST", "/keys/a%2f..%2fb/revoke"); code != http.StatusNotFound ||
		!strings.Contains(body, `"code":"not_found"`) {
		t.Errorf("an encoded slash in an id: %d %s", code, body)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// exporter has records 5 to 9, and breaks while it writes if it is asked for record 7 alone.
type exporter struct{ Exporter }

func (exporter) Export(w io.Writer, _ *log.Signer, r log.Range) error {
	if r.From != 0 && r.From < 5 {
		return sdk.FieldErrf(sdk.CodeNotFound, "from", "the first record that is there is 5")
	}
	fmt.Fprintf(w, "%d to %d", r.From, r.To)
	if r == (log.Range{From: 7, To: 7}) {
		return errors.New("the disk is gone")
	}
	return nil
}

func TestExportOfARange(t *testing.T) {
	data := t.TempDir()
	s, err := Listen(data, Settings{Export: exporter{}, OwnProc: func() error { return nil }, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	c, err := Dial(data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for query, want := range map[string]string{"": "0 to 0", "?": "0 to 0", "?from=5": "5 to 0",
		"?to=9&from=6": "6 to 9"} {
		var out strings.Builder
		if err := c.Stream(context.Background(), "/audit/export"+query, &out); err != nil || out.String() != want {
			t.Errorf("%s: %v, %q, want %q", query, err, out.String(), want)
		}
	}
	for query, want := range map[string]string{
		"?from=0": "each the number of one record", "?from=-1": "number of one record", "?from=x": "number of one record",
		"?from=1&from=2": "number of one record", "?upto=3": "number of one record", "?from=9223372036854775808": "number of",
		"?from=1;to=2": "expected from=SEQ and to=SEQ", "?from=4": "the first record that is there is 5",
	} {
		var out strings.Builder
		err := c.Stream(context.Background(), "/audit/export"+query, &out)
		var refused *sdk.Error
		if !errors.As(err, &refused) || !strings.Contains(refused.Msg, want) || out.Len() > 0 {
			t.Errorf("%s: %v, %q, want %q", query, err, out.String(), want)
		}
	}
	var out strings.Builder
	if err := c.Stream(context.Background(), "/audit/export?from=7&to=7", &out); err == nil {
		t.Errorf("an export that broke passes for a whole one: %q", out.String())
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// largest keeps what was written, and how much at once.
type largest struct {
	strings.Builder
	n int
}

func (l *largest) Write(p []byte) (int, error) {
	l.n = max(l.n, len(p))
	return l.Builder.Write(p)
}

func TestListOfKeysIsNeverHeldWhole(t *testing.T) {
	var keys []*store.Key
	for i := range 2000 {
		keys = append(keys, &store.Key{ID: fmt.Sprint("id", i), Name: fmt.Sprint("name", i), Note: strings.Repeat("n", 1024)})
	}
	for _, n := range []int{0, 1, 2000} {
		var out largest
		if err := writeKeys(&out, keys[:n]); err != nil {
			t.Fatal(err)
		}
		var rows []KeyRow
		if err := json.Unmarshal([]byte(out.String()), &rows); err != nil || rows == nil || len(rows) != n {
			t.Fatalf("%d rows of %d, %v", len(rows), n, err)
		}
		if n > 0 && rows[n-1].ID != keys[n-1].ID || out.n > 64<<10 {
			t.Errorf("the last row is %+v, %d bytes were written at once", rows[n-1], out.n)
		}
	}
}
