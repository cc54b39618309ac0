package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptMCPServer answers each list with the tools that the file has then, and each call with the tool's name.
func scriptMCPServer(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "mcpserver FILE")
	path := ts.MkAbs(args[0])
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result := fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, m.Params.Name+" ran")
		if m.Method == "tools/list" {
			tools, err := os.ReadFile(path)
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			result = `{"tools":` + string(tools) + `}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	ts.Defer(srv.Close)
	ts.Setenv("UPSTREAM", srv.URL)
}
