// Package admin serves the admin socket: what an operator on the same machine does with `yett keys`, `yett audit` and
// `yett kill`. It owns who may come in (the server's own uid or root, no process that the server started, and none that
// is confined further than the server) and the small HTTP protocol on the socket. It makes and revokes keys, kills and
// undoes a kill, reloads the configuration, lets plugins go on, accepts definitions of MCP tools, and reads; it must
// never approve a call or decide. Commands of cmd/yett come in through Client; work goes to the same operations as
// everything else.
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
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Exporter writes the audit log.
type Exporter interface {
	// Export writes the records of a range as of now with a header that signs exactly them. When it refuses the range
	// with an *sdk.Error it has written nothing.
	Export(w io.Writer, signer *log.Signer, r log.Range) error
	// Sealed are the ranges of the files that are complete, the oldest first, without gaps.
	Sealed() []log.Range
	// Prove makes a proof that a record is in the log as of now.
	Prove(seq uint64, signer *log.Signer) ([]byte, error)
}

// Settings are what a Server needs.
type Settings struct {
	Service *ops.Service
	Export  Exporter
	Tools   Tools
	Backup  func(signer *log.Signer, out store.BackupOut) (*store.Manifest, error)
	Signer  *log.Signer
	Version string
	URL     string // of the HTTP API
	Socket  string // path of the agents' socket, "" if it is off
	Console string // address of the console, "" if it is off
	MCP     string // address of the MCP gateway, "" if it is off
	// MCPServers are the names of the MCP servers behind it.
	MCPServers []string
	// Certificate is what the HTTP API shows, in PEM form: commands on this machine trust it without a CA. "" without TLS.
	Certificate string
	Control     Control
	// an error unless /proc shows this process's own PID namespace: else nobody can be told from a plugin
	OwnProc func() error
	Log     func(format string, args ...any)
}

// Server is the admin socket of one running gateway.
type Server struct {
	set  Settings
	dir  *os.File
	path string
	ln   net.Listener
	http *http.Server
}

// socketDir is the socket's own directory (0700) in the data directory.
const socketDir = "admin"

// connections is how many may be open at once; another one closes the oldest that is not being answered.
const connections = 256

// Listen opens the socket in the data directory. A socket left by a dead server is replaced: the store's own lock keeps
// a second live one out.
func Listen(data string, set Settings) (*Server, error) {
	dir := filepath.Join(data, socketDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm()&0o077 != 0 {
		return nil, errors.Join(err, fmt.Errorf("admin socket: %s must be mode 0700", dir))
	}
	s := &Server{set: set, path: filepath.Join(dir, "sock")}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	fd, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	s.dir = fd
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: short(fd), Net: "unix"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("admin socket: %w", err), fd.Close())
	}
	ln.SetUnlinkOnClose(false) // its name is relative to an open directory; Close removes it
	s.ln = edge.NewDoor(connections, connections).Listen(guard(ln, set.OwnProc, set.Log),
		edge.NewAcceptor("admin socket", set.Log), nil, nil)
	s.http = &http.Server{Handler: edge.Served(edge.Exact(s.routes(), nowhere)), ConnContext: edge.ConnContext,
		ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	return s, os.Chmod(s.path, 0o600)
}

// short names the socket by its open directory: a Unix socket's path is limited to 107 bytes, data directories are not.
func short(dir *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/sock"
}

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin socket: %w", err)
	}
	return nil
}

// Close waits for what runs until ctx ends and removes the socket.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if lnErr := s.ln.Close(); lnErr != nil && !errors.Is(lnErr, net.ErrClosed) {
		err = errors.Join(err, lnErr)
	}
	if rmErr := os.Remove(s.path); rmErr != nil && !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return errors.Join(err, s.dir.Close())
}

// nowhere answers a path that names nothing: no id of a key and no name of a plugin has a byte that a path must encode.
func nowhere(w http.ResponseWriter, _ *http.Request) {
	answer(w, nil, sdk.Errf(sdk.CodeNotFound, "there is nothing at this path; ids of keys and names of plugins consist "+
		"of letters, digits, - and _"))
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"version": s.set.Version, "url": s.set.URL, "socket": s.set.Socket, "console": s.set.Console,
			"mcp": s.set.MCP, "mcp_servers": s.set.MCPServers, "certificate": s.set.Certificate, "pid": os.Getpid()}, nil)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		s.listed("keys", writeKeys(w, s.set.Service.Keys()))
	})
	mux.HandleFunc("POST /keys", s.create)
	mux.HandleFunc("POST /keys/{id}/revoke", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"ok": true, "id": r.PathValue("id")},
			s.set.Service.RevokeKey(r.Context(), r.PathValue("id"), who(r)))
	})
	mux.HandleFunc("POST /keys/{id}/roll", s.roll)
	mux.HandleFunc("POST /kill", s.kill)
	s.controls(mux)
	s.tools(mux)
	mux.HandleFunc("GET /audit/key", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"key": s.set.Signer.PublicKey(), "key_id": s.set.Signer.KeyID()}, nil)
	})
	mux.HandleFunc("GET /audit/export", s.export)
	mux.HandleFunc("GET /audit/sealed", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"sealed": s.set.Export.Sealed()}, nil)
	})
	mux.HandleFunc("GET /backup", s.backup)
	mux.HandleFunc("GET /audit/proof/{seq}", func(w http.ResponseWriter, r *http.Request) {
		seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 63)
		if err != nil {
			answer(w, nil, sdk.FieldErrf(sdk.CodeInvalidField, "seq", "%q is no number of a record", r.PathValue("seq")))
			return
		}
		proof, err := s.set.Export.Prove(seq, s.set.Signer)
		answer(w, map[string]any{"seq": seq, "proof": string(proof)}, err)
	})
	return mux
}

// listed ends an answer that is a list. The client must not take a cut one for a whole one.
func (s *Server) listed(what string, err error) {
	if err != nil {
		s.set.Log("admin: list %s: %v", what, err)
		panic(http.ErrAbortHandler)
	}
}

// writeKeys writes the list row by row: there may be a million keys that ended, and the whole list is never held.
func writeKeys(w io.Writer, keys []*store.Key) error {
	out := bufio.NewWriterSize(w, 32<<10)
	sep := byte('[')
	for _, k := range keys {
		row, err := json.Marshal(rowOf(k))
		if err != nil {
			return fmt.Errorf("key %s: %w", k.ID, err)
		}
		if err := errors.Join(out.WriteByte(sep), second(out.Write(row))); err != nil {
			return err
		}
		sep = ','
	}
	if len(keys) == 0 {
		return second(io.WriteString(w, "[]\n"))
	}
	return errors.Join(second(out.WriteString("]\n")), out.Flush())
}

// export answers GET /audit/export?from=SEQ&to=SEQ, both optional.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	asked, err := readRange(r.URL.RawQuery)
	if err != nil {
		answer(w, nil, err)
		return
	}
	err = s.set.Export.Export(w, s.set.Signer, asked)
	var refused *sdk.Error
	switch {
	case errors.As(err, &refused):
		answer(w, nil, err)
	case err != nil:
		s.set.Log("admin: %v", err)
		panic(http.ErrAbortHandler) // the client must not take a cut export for a whole one
	}
}

func readRange(query string) (r log.Range, err error) {
	all, err := url.ParseQuery(query)
	if err != nil {
		return r, sdk.Errf(sdk.CodeInvalidField, "expected from=SEQ and to=SEQ, got %.80q", query)
	}
	for name, values := range all {
		n, err := strconv.ParseUint(values[0], 10, 62)
		if err != nil || n == 0 || len(values) > 1 || name != "from" && name != "to" {
			return r, sdk.FieldErrf(sdk.CodeInvalidField, name, "expected from=SEQ and to=SEQ, each the number of one record, "+
				"got %.80q", query)
		}
		if name == "from" {
			r.From = n
		} else {
			r.To = n
		}
	}
	return r, nil
}

func second(_ int, err error) error { return err }

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var in CreateRequest
	if err := read(r, &in); err != nil {
		answer(w, nil, err)
		return
	}
	n, err := s.set.Service.CreateKey(r.Context(),
		ops.KeySpec{Name: in.Name, Environment: in.Environment, Preset: in.Preset, Scopes: in.Scopes, Agents: in.Agents,
			ExpiresAt: in.ExpiresAt, Note: in.Note, Redeem: in.Redeem}, who(r))
	if err != nil {
		answer(w, nil, err)
		return
	}
	answer(w, NewKey{ID: n.Key.ID, Key: n.Value, Name: n.Key.Name, Scopes: n.Key.Scopes}, nil)
}

func (s *Server) roll(w http.ResponseWriter, r *http.Request) {
	var in RollRequest
	if err := read(r, &in); err != nil {
		answer(w, nil, err)
		return
	}
	n, err := s.set.Service.RollKey(r.Context(), r.PathValue("id"), time.Duration(in.GraceSeconds)*time.Second, who(r))
	if err != nil {
		answer(w, nil, err)
		return
	}
	answer(w, NewKey{ID: n.Key.ID, Key: n.Value, Name: n.Key.Name, Scopes: n.Key.Scopes}, nil)
}

// kill stops, or lets go on again: here even what no key may undo. It approves nothing.
func (s *Server) kill(w http.ResponseWriter, r *http.Request) {
	var in wire.KillRequest
	if err := read(r, &in); err != nil {
		answer(w, nil, err)
		return
	}
	for _, name := range []struct{ field, value string }{{"agent_id", in.AgentID}, {"scope", in.Scope},
		{"target", in.Target}} {
		if err := wire.CheckName(name.field, name.value, 256, false); err != nil {
			answer(w, nil, err)
			return
		}
	}
	out, err := s.set.Service.Kill(r.Context(), who(r), &in)
	answer(w, out, err)
}

func read(r *http.Request, dst any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(dst); err != nil {
		return sdk.Errf(sdk.CodeInvalidJSON, "the request cannot be read: %v", err)
	}
	return nil
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		var e *sdk.Error
		if !errors.As(err, &e) {
			e = &sdk.Error{Code: sdk.CodeInternal, Err: err}
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(wire.StatusOf(e.Code).HTTP)
		w.Write(wire.AppendProblem(nil, ops.Told(e), ""))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func who(r *http.Request) store.Who {
	uid := r.RemoteAddr // guarded sets it
	return store.Who{Principal: "admin:" + uid, Method: "peer_uid", Surface: "admin", Peer: uid}
}

// KeyRow is one key in a list.
type KeyRow struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Environment string    `json:"environment,omitempty"`
	Scopes      []string  `json:"scopes"`
	Agents      []string  `json:"agents"`
	CreatedAt   time.Time `json:"created_at"`
	CreatedBy   string    `json:"created_by"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	LastUsedAt  time.Time `json:"last_used_at,omitzero"`
	RevokedAt   time.Time `json:"revoked_at,omitzero"`
	RevokedBy   string    `json:"revoked_by,omitempty"`
	Note        string    `json:"note,omitempty"`
	Redeem      string    `json:"redeem,omitempty"` // explicit, or "" where calls may choose
}

func rowOf(k *store.Key) KeyRow {
	row := KeyRow{ID: k.ID, Name: k.Name, Environment: k.Environment, Scopes: k.Scopes, Agents: k.Agents,
		CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt(), Note: k.Note}
	if k.Explicit {
		row.Redeem = "explicit"
	}
	if row.Agents == nil {
		row.Agents = []string{}
	}
	if r := k.Revocation(); r != nil {
		row.RevokedAt, row.RevokedBy = r.At.UTC(), r.By
	}
	return row
}

// CreateRequest asks for a key. A name is enough.
type CreateRequest struct {
	Name        string    `json:"name"`
	Environment string    `json:"environment,omitempty"`
	Preset      string    `json:"preset,omitempty"`
	Scopes      []string  `json:"scopes,omitempty"`
	Agents      []string  `json:"agents,omitempty"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	Note        string    `json:"note,omitempty"`
	Redeem      string    `json:"redeem,omitempty"` // explicit or auto, which is the default
}

// RollRequest asks for a new key in place of an old one.
type RollRequest struct {
	GraceSeconds int `json:"grace_seconds"`
}

// NewKey is a key just made, with the value that is shown this once.
type NewKey struct {
	ID     string   `json:"id"`
	Key    string   `json:"key"`
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
}
