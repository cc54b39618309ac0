package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/swap"
)

// wantedFile is what the hook's own file must hold.
type wantedFile struct {
	hookfile.File
	before []byte // what it holds now
	change string // created, changed or unchanged
	newKey bool   // a key has to be made first
	note   string // what the user has to know
}

// wantedHook works out the hook's own file from what it holds and what was given.
func (s site) wantedHook(ctx context.Context, r *Request) (*wantedFile, error) {
	w := &wantedFile{change: "created"}
	f, err := swap.Read(s.hookFile())
	if err != nil {
		return nil, err
	}
	var old hookfile.File
	if f.Exists {
		parsed, err := hookfile.Parse(f.Text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: correct it, or remove it and connect again", s.hookFile(), err)
		}
		old, w.before, w.change = *parsed, f.Text, "changed"
	}
	w.File = old
	w.Agent = string(s.agent)
	if err := s.locate(ctx, r, w); err != nil {
		return nil, err
	}
	if r.Given.AgentID != "" {
		w.AgentID = r.Given.AgentID
	}
	if r.Given.Servers != nil {
		w.Servers = r.Given.Servers
	}
	if r.MCP != nil {
		if w.Gated = r.MCP.Servers; len(w.Gated) == 0 {
			w.MCPURL, w.MCPPins = "", nil
		} else if r.MCP.URL != "" {
			w.MCPURL, w.MCPPins = r.MCP.URL, r.MCP.Pins
		}
	}
	switch {
	case r.Wrap != nil:
		w.Wrap = *r.Wrap
	case w.Wrap != "" && r.Program != "": // the hooks move to this program, and so does exec
		w.Wrap = r.Program
	}
	if w.Wrap != "" {
		if err := s.trusted(w.Wrap, r.UID); err != nil {
			return nil, err
		}
	}
	moved := f.Exists && (w.Socket != old.Socket || w.URL != old.URL)
	switch {
	case r.Given.Key != "":
		w.Key = r.Given.Key
	case r.NoKey:
		w.Key = ""
	case old.Key == "" && !f.Exists, moved:
		w.newKey, w.Key = true, "to-be-made"
		if r.Gateway == nil {
			return nil, errors.New("there is no key yet: name the gateway on this machine with --data DIR or --config FILE, " +
				"and it makes one, or give one with --key-file FILE")
		}
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	if len(w.Gated) > 0 && (w.MCPURL == "" || w.Key == "") {
		return nil, errors.New("MCP servers at the gateway are reached with a key, at its MCP listener: switch that on " +
			"(mcp.enabled) and name the gateway with --data or --config, or give --mcp-url; and leave --no-key out")
	}
	text, err := w.Marshal()
	kept := f.Exists && s.hookMode(w, r) == f.Mode() && (f.Mode() != 0o640 || hasGroup(f.Info(), r.Group))
	if err == nil && kept && !w.newKey && bytes.Equal(text, w.before) {
		w.change = "unchanged"
	}
	return w, nil
}

// locate works out where the gateway is.
func (s site) locate(ctx context.Context, r *Request, w *wantedFile) error {
	switch {
	case r.Given.URL != "":
		w.URL, w.Pins, w.Socket, w.SocketOwner = r.Given.URL, r.Given.Pins, "", nil
		return nil
	case r.Given.Socket != "":
		w.Socket = r.Given.Socket
	case r.Gateway != nil && (w.before == nil || w.Socket != ""):
		socket, err := r.Gateway.Socket(ctx)
		if err != nil {
			return err
		}
		if socket == "" {
			return errors.New("the gateway has no socket for agents: switch it on (socket.enabled), or give --url and --pin")
		}
		w.Socket = socket
	case w.Socket == "" && w.URL == "":
		return errors.New("where is the gateway? Give --data DIR or --config FILE of the one on this machine, or --socket " +
			"PATH, or --url URL and --pin PIN")
	case w.URL != "":
		return nil
	}
	info, err := os.Stat(w.Socket)
	if err != nil {
		return fmt.Errorf("the gateway's socket: %w: is it running?", err)
	}
	owner, _, ok := swap.Owner(info)
	if info.Mode().Type() != fs.ModeSocket || !ok {
		return fmt.Errorf("%s is not a socket", w.Socket)
	}
	if err := placed(w.Socket, owner, r.UID); err != nil {
		return err
	}
	uid := uint32(owner)
	w.URL, w.Pins, w.SocketOwner = "", nil, &uid
	mode := info.Mode().Perm()
	others := mode&0o002 != 0 || mode&0o020 != 0 && (s.scope != Managed || hasGroup(info, r.Group))
	if !others && (s.scope == Managed || owner != r.UID) {
		w.note = fmt.Sprintf("Only user %d may use the socket %s, so each call of the agent will be refused: set "+
			"socket.mode "+
			"to \"0660\" and socket.group in the gateway's configuration.", owner, w.Socket)
	}
	return nil
}

// placed says why a socket cannot be believed to be the gateway's, nil if only root, this user and the socket's owner
// could have put it there. In a directory that everybody may write to, such as /tmp, the owner may be anybody.
func placed(socket string, owner, uid int) error {
	for at := filepath.Dir(socket); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		dir, _, ok := swap.Owner(info)
		switch {
		case !ok || dir != 0 && dir != uid && dir != owner:
			return fmt.Errorf("%s belongs to user %d, who could put another socket there: move the gateway's socket", at, dir)
		case info.Mode().Perm()&0o002 != 0 && (info.Mode()&fs.ModeSticky == 0 || owner != 0 && owner != uid):
			return fmt.Errorf("everybody can write to %s, so the socket may be anybody's: put it into a directory of its own",
				at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// hookMode is who may read the hook's file.
func (s site) hookMode(w *wantedFile, r *Request) fs.FileMode {
	switch {
	case s.scope != Managed:
		return 0o600
	case w.Key == "":
		return 0o644
	case r.Group < 0:
		return 0o600
	}
	return 0o640
}

// readers says who may read the hook's file.
func (s site) readers(w *wantedFile, r *Request) string {
	switch s.hookMode(w, r) {
	case 0o640:
		return fmt.Sprintf("root and the group %d", r.Group)
	case 0o644:
		return "everybody: it holds no key"
	}
	return fmt.Sprintf("user %d alone", r.UID)
}

// writeHookFile makes the key, if one is needed, and writes the hook's own file.
func (s site) writeHookFile(ctx context.Context, r *Request, rec *record, res *Result) error {
	w, err := s.wantedHook(ctx, r)
	if err != nil {
		return err
	}
	res.Reader = s.readers(w, r)
	if w.note != "" {
		res.Notes = append(res.Notes, w.note)
	}
	if res.Hook = w.change; w.change == "unchanged" {
		return nil
	}
	if w.newKey {
		id := w.AgentID
		if id == "" {
			id = w.Agent
		}
		name := string(s.agent) + " on " + r.Host
		made := keyRecord{Name: name, Gateway: r.Gateway.Name()}
		if made.ID, w.Key, err = r.Gateway.CreateKey(ctx, name, []string{id, id + "/*"}); err != nil {
			return fmt.Errorf("the gateway could not make a key: %w", err)
		}
		rec.Key = &made
		res.Key = fmt.Sprintf("%s (%s) was made", name, made.ID)
		if err := s.saveRecord(rec); err != nil {
			return errors.Join(err, r.Gateway.RevokeKey(ctx, made.ID))
		}
	}
	text, err := w.Marshal()
	if err != nil {
		return err
	}
	group := -1
	if s.scope == Managed && w.Key != "" {
		group = r.Group
	}
	return s.keep(s.hookFile(), text, s.hookMode(w, r), group)
}

// revoke revokes a key that was made here.
func revoke(ctx context.Context, g Gateway, key *keyRecord, res *Result) {
	err := errors.New("its gateway was not named")
	if g != nil {
		err = g.RevokeKey(ctx, key.ID)
	}
	if err == nil {
		res.Notes = append(res.Notes, fmt.Sprintf("The key %s (%s) is revoked.", key.Name, key.ID))
		return
	}
	flag := "--data"
	if strings.HasSuffix(key.Gateway, ".yaml") || strings.HasSuffix(key.Gateway, ".yml") {
		flag = "--config"
	}
	res.Notes = append(res.Notes, fmt.Sprintf("The key %s still works (%v). Revoke it: yett keys revoke %s %s %s",
		key.Name, err, key.ID, flag, key.Gateway))
}
