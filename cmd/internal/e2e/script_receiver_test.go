package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/yett-dev/yett/core/testkit/witness"
)

// scriptReceiver keeps the newest checkpoint that it is posted in a file, and answers with what the file has.
func scriptReceiver(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "receiver FILE")
	path := ts.MkAbs(args[0])
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Type string
			Data struct{ Checkpoint string }
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || !strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if m.Type == "yett.audit.checkpoint" {
			if err := os.WriteFile(path, []byte(m.Data.Checkpoint), 0o600); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		has, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(has)
	}))
	ts.Defer(srv.Close)
	ts.Setenv("RECEIVER", srv.URL)
}

// scriptWitness trusts the key that the file has once it is there.
func scriptWitness(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "witness KEYFILE")
	path, w := ts.MkAbs(args[0]), witness.New("witness.example/1")
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if key, err := os.ReadFile(path); err == nil {
			if err := w.Trust(string(key)); err != nil {
				rw.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		w.ServeHTTP(rw, r)
	}))
	ts.Defer(srv.Close)
	ts.Setenv("WITNESS", srv.URL)
	ts.Setenv("WITNESS_KEY", w.Key())
}
