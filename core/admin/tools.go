package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Tools are the definitions of MCP tools that the gateway has seen. *store.Store has them.
type Tools interface {
	// Tools are all of them, by server and name.
	Tools() []*store.Tool
	// Tool is one of them, nil if it was never seen.
	Tool(server, tool string) *store.Tool
	// ToolText is the text of one definition, "" if none is kept.
	ToolText(t *store.Tool, d store.Definition) (string, error)
	Commit(ctx context.Context, cmd store.Command) error
}

// The states of a tool in a list.
const (
	ToolAccepted = "accepted" // its newest definition counts
	ToolChanged  = "changed"  // its newest definition waits for an operator
	ToolNew      = "new"      // the same, and none was accepted before
)

// ToolRow is one MCP tool.
type ToolRow struct {
	Server   string          `json:"server"`
	Tool     string          `json:"tool"`
	State    string          `json:"state"`
	Accepted *ToolDefinition `json:"accepted,omitempty"` // what counts
	Pending  *ToolDefinition `json:"pending,omitempty"`  // what waits for an operator
}

// ToolDefinition is one definition of a tool.
type ToolDefinition struct {
	Digest string          `json:"digest"`
	At     time.Time       `json:"at"` // when it was seen first, or accepted
	By     string          `json:"by"` // who asked for the list that had it, or who accepted it
	Text   json.RawMessage `json:"definition,omitempty"`
}

// AcceptRequest accepts the pending definition of a tool that has this digest.
type AcceptRequest struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Digest string `json:"digest"`
}

func (s *Server) tools(mux *http.ServeMux) {
	mux.HandleFunc("GET /mcp/tools", func(w http.ResponseWriter, r *http.Request) {
		q, err := readQuery(r, "server", "changed")
		if err == nil && q.Get("changed") != "" {
			_, err = strconv.ParseBool(q.Get("changed"))
		}
		if err != nil {
			answer(w, nil, sdk.Errf(sdk.CodeInvalidField, "expected server=NAME and changed=true, both optional: %v", err))
			return
		}
		changed, _ := strconv.ParseBool(q.Get("changed"))
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		s.listed("MCP tools", writeTools(w, s.set.Tools.Tools(), q.Get("server"), changed))
	})
	mux.HandleFunc("GET /mcp/tool", func(w http.ResponseWriter, r *http.Request) {
		q, err := readQuery(r, "server", "tool")
		if err != nil {
			answer(w, nil, sdk.Errf(sdk.CodeInvalidField, "expected server=NAME and tool=NAME: %v", err))
			return
		}
		row, err := s.oneTool(q.Get("server"), q.Get("tool"))
		answer(w, row, err)
	})
	mux.HandleFunc("POST /mcp/accept", func(w http.ResponseWriter, r *http.Request) {
		var in AcceptRequest
		err := read(r, &in)
		if err == nil {
			err = s.set.Tools.Commit(r.Context(), &store.AcceptTool{Server: in.Server, Tool: in.Tool, Digest: in.Digest,
				By: who(r)})
		}
		answer(w, in, err)
	})
}

// readQuery reads the parameters of an address. Each is there once at most.
func readQuery(r *http.Request, names ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	left := len(q)
	for _, name := range names {
		if values, ok := q[name]; ok {
			left--
			if len(values) > 1 {
				return nil, errors.New(name + " is there more than once")
			}
		}
	}
	if left > 0 {
		return nil, errors.New("another parameter is there")
	}
	return q, nil
}

// writeTools writes the list row by row, without texts: the whole list is never held.
func writeTools(w io.Writer, all []*store.Tool, server string, changed bool) error {
	out := bufio.NewWriterSize(w, 32<<10)
	sep := "["
	for _, t := range all {
		if server != "" && t.Server != server || changed && t.Pending.Digest == "" {
			continue
		}
		row, err := json.Marshal(toolRow(t))
		if err != nil {
			return err
		}
		if err := errors.Join(second(out.WriteString(sep)), second(out.Write(row))); err != nil {
			return err
		}
		sep = ","
	}
	if sep == "[" {
		return second(io.WriteString(w, "[]\n"))
	}
	return errors.Join(second(out.WriteString("]\n")), out.Flush())
}

// oneTool is a tool with the texts of its definitions.
func (s *Server) oneTool(server, tool string) (*ToolRow, error) {
	t := s.set.Tools.Tool(server, tool)
	if t == nil {
		return nil, sdk.FieldErrf(sdk.CodeNotFound, "tool", "no definition of a tool %q of a server %q was seen; see yett "+
			"mcp tools", tool, server)
	}
	row := toolRow(t)
	for _, d := range []struct {
		of *store.Definition
		to *ToolDefinition
	}{{&t.Accepted, row.Accepted}, {&t.Pending, row.Pending}} {
		if d.to == nil {
			continue
		}
		text, err := s.set.Tools.ToolText(t, *d.of)
		if err != nil {
			return nil, &sdk.Error{Code: sdk.CodeInternal, Msg: err.Error(), Err: err}
		}
		d.to.Text = json.RawMessage(text)
	}
	return row, nil
}

func toolRow(t *store.Tool) *ToolRow {
	row := &ToolRow{Server: t.Server, Tool: t.Name, State: ToolAccepted, Accepted: definitionOf(&t.Accepted),
		Pending: definitionOf(&t.Pending)}
	switch {
	case row.Accepted == nil:
		row.State = ToolNew
	case row.Pending != nil:
		row.State = ToolChanged
	}
	return row
}

func definitionOf(d *store.Definition) *ToolDefinition {
	if d.Digest == "" {
		return nil
	}
	return &ToolDefinition{Digest: d.Digest, At: d.At.UTC(), By: d.By}
}
