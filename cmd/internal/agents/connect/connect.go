package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/swap"
)

// Gateway is the running gateway on this machine.
type Gateway interface {
	// Name is what the gateway is found by: its data directory or its configuration.
	Name() string
	// Socket is the path of the agents' socket, "" if it is off.
	Socket(ctx context.Context) (string, error)
	// CreateKey makes a key that may authorize and scan for these agents.
	CreateKey(ctx context.Context, name string, agents []string) (id, value string, err error)
	// RevokeKey revokes a key for ever.
	RevokeKey(ctx context.Context, id string) error
}

// Request says what to connect.
type Request struct {
	Agent   hook.Agent
	Scope   Scope
	Places  Places
	UID     int           // the user who runs this
	Command hook.Command  // the binary and timeout(1)
	Group   int           // the group that may read the hook's file; -1 for none
	Gateway Gateway       // nil if none on this machine was named
	Given   hookfile.File // what replaces members of the hook's file
	Program string        // the program that runs exec, if commands are wrapped already and Wrap is nil
	Wrap    *string       // the program in which shell commands are wrapped, "" for none; nil leaves it as it is
	MCP     *MCP          // the MCP servers that are reached through the gateway; nil leaves them as they are
	NoKey   bool          // the gateway maps the agent's user to a key
	Host    string        // this machine, for the name of a new key
	Print   bool          // change nothing
}

// Result says what was done, or with Print what would be done.
type Result struct {
	Agent    string       `json:"agent"`
	Scope    Scope        `json:"scope"`
	Files    []FileResult `json:"files"`
	HookFile string       `json:"hook_file"`
	Hook     string       `json:"hook"`                  // what became of the hook's file: as Change of a file
	Reader   string       `json:"readable_by,omitempty"` // who may read it
	Key      string       `json:"key,omitempty"`         // name and id of a key that was made
	Notes    []string     `json:"notes,omitempty"`
	Open     []Way        `json:"open,omitempty"` // ways past the hooks
}

// FileResult is one file of the agent.
type FileResult struct {
	Path   string `json:"path"`
	Change string `json:"change"` // created, changed, unchanged, restored, cleared, removed
	Diff   string `json:"diff,omitempty"`
}

// Way is a way past the hooks that no answer of theirs can close.
type Way struct {
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// MCP says how the agent reaches MCP servers at the gateway.
type MCP struct {
	Servers []string // their names; none takes the entries out
	URL     string   // of the gateway's MCP listener; "" keeps what the hook's own file says
	Pins    []string // of its certificate
}

// attempts is how often a file is planned again because another program has changed it.
const attempts = 50

// check gives the site of a request that makes sense.
func (r *Request) check() (site, error) {
	s := site{r.Agent, r.Scope, r.Places}
	if err := r.Places.check(r.Scope); err != nil {
		return s, err
	}
	if why := noManaged(r.Agent); r.Scope == Managed && why != "" {
		return s, errors.New(why)
	}
	info, err := os.Stat(s.root())
	if err != nil {
		return s, err
	}
	if owner, _, ok := swap.Owner(info); !ok || owner != r.UID {
		return s, fmt.Errorf("%s belongs to user %d: run this as that user", s.root(), owner)
	}
	return s, nil
}

// Connect writes the hooks and their file.
func Connect(ctx context.Context, r Request) (*Result, error) {
	s, err := r.check()
	if err != nil {
		return nil, err
	}
	if err := s.trusted(r.Command.Yett, r.UID); err != nil {
		return nil, err
	}
	g := s.gates(r.Command)
	if r.MCP != nil {
		if why := s.noMCP(); why != "" && len(r.MCP.Servers) > 0 {
			return nil, errors.New(why)
		}
		path, _ := s.mcpFile()
		_, err := os.Stat(path)
		g.names, g.take = r.MCP.Servers, err == nil
	}
	edits, err := s.editsWith(r.Command, g)
	if err != nil {
		return nil, err
	}
	if s.scope == Managed {
		if err := s.checkManaged(edits, r.Command, r.UID); err != nil {
			return nil, err
		}
	}
	res := &Result{Agent: string(s.agent), Scope: s.scope, HookFile: s.hookFile(), Open: ways(s)}
	res.Open = append(res.Open, gateWays(s, g.names)...)
	if r.Wrap != nil && *r.Wrap != "" {
		res.Open = append(res.Open, WrapWay)
	}
	if r.Print {
		return res, s.preview(ctx, &r, edits, res)
	}
	dirs, held, err := s.lock()
	if err != nil {
		dropDirs(dirs)
		return nil, err
	}
	err = s.write(ctx, &r, edits, dirs, res)
	if err != nil {
		dropDirs(dirs)
	}
	return res, errors.Join(err, held.Close())
}

// plan is what one file will hold.
type plan struct {
	edit
	file   *swap.File
	out    []byte
	notes  []string
	record fileRecord
	base   []byte // the text to go back to, nil if it is in the backup already or was missing
}

func (p *plan) same() bool { return p.file.Exists && bytes.Equal(p.out, p.file.Text) && p.runnable() }

// runnable says whether a file that must be executable is.
func (p *plan) runnable() bool { return p.mode&0o100 == 0 || p.file.Mode()&0o100 != 0 }

// planFile reads a file and works out what to write.
func (s site) planFile(e edit, i int, old *fileRecord) (*plan, error) {
	f, err := swap.Read(e.path)
	if err != nil {
		return nil, err
	}
	p := &plan{edit: e, file: f}
	if p.out, p.notes, err = e.put(f.Text); err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	p.record = fileRecord{Path: e.path, After: hashOf(p.out)}
	if old != nil && hashOfFile(f) == old.After { // as we left it
		p.record.Before, p.record.Backup, p.record.Made, p.record.Mode = old.Before, old.Backup, old.Made, old.Mode
		return p, nil
	}
	var made [][]string
	if old != nil {
		made = old.Made
	}
	base, err := e.take(f.Text, made)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	missing := !f.Exists || e.blank(base) && (old != nil && old.Before == "" || len(f.Text) > 0 && len(base) == 0)
	if !missing {
		p.base = append([]byte{}, base...)
		p.record.Before, p.record.Backup = hashOf(base), filepath.Base(s.backup(i))
	}
	p.record.Made = e.made(base)
	if f.Exists && !p.runnable() {
		p.record.Mode = uint32(f.Mode())
	}
	return p, nil
}

// write does everything, under the lock.
func (s site) write(ctx context.Context, r *Request, edits []edit, dirs []string, res *Result) error {
	rec, err := s.loadRecord()
	if err != nil {
		return err
	}
	if rec == nil {
		rec = &record{Version: recordVersion}
	}
	rec.Dirs = append(rec.Dirs, dirs...)
	for i, e := range edits { // nothing is written before all can be
		if _, err := s.planFile(e, i, rec.file(e.path)); err != nil {
			return err
		}
	}
	old := rec.Key
	if err := s.writeHookFile(ctx, r, rec, res); err != nil {
		return err
	}
	for i, e := range edits {
		done, err := s.writeFile(e, i, rec)
		if err != nil {
			return err
		}
		res.Files = append(res.Files, FileResult{Path: e.path, Change: done.change})
		res.Notes = append(res.Notes, done.notes...)
	}
	if old != nil && rec.Key != nil && old.ID != rec.Key.ID {
		revoke(ctx, r.Gateway, old, res)
	}
	return nil
}

type written struct {
	change string
	notes  []string
}

// writeFile brings one file to what it must be. It plans again when another program was faster.
func (s site) writeFile(e edit, i int, rec *record) (written, error) {
	done := written{change: "unchanged"}
	for range attempts {
		p, err := s.planFile(e, i, rec.file(e.path))
		if err != nil {
			return done, err
		}
		done.notes = p.notes
		if err := s.remember(p, rec); err != nil {
			return done, err
		}
		if p.same() {
			return done, nil
		}
		if p.file.Exists && bytes.Equal(p.out, p.file.Text) {
			if err := os.Chmod(p.file.Target, p.file.Mode()|p.mode&0o111); err != nil {
				return done, err
			}
			done.change = "changed"
			continue
		}
		_, mode := s.mode()
		made, err := makeDirs(filepath.Dir(p.file.Target), mode)
		rec.Dirs = append(rec.Dirs, made...)
		if err == nil && len(made) > 0 {
			err = s.saveRecord(rec)
		}
		if err != nil {
			return done, err
		}
		change := "changed"
		if !p.file.Exists {
			change = "created"
		}
		switch err := p.file.Write(p.out, p.mode, -1); {
		case errors.Is(err, swap.ErrChanged):
		case err != nil:
			return done, fmt.Errorf("%s: %w", e.path, err)
		default:
			if done.change != "created" {
				done.change = change
			}
		}
	}
	return done, fmt.Errorf("%s: another program changes this file again and again: stop it, and connect again", e.path)
}

// remember writes the backup and the record before the file is changed.
func (s site) remember(p *plan, rec *record) error {
	if p.base != nil {
		if err := s.keep(filepath.Join(s.own(), p.record.Backup), p.base, 0o600, -1); err != nil {
			return err
		}
	}
	if old := rec.file(p.path); old != nil {
		*old = p.record
	} else {
		rec.Files = append(rec.Files, p.record)
	}
	return s.saveRecord(rec)
}

// preview says what write would do.
func (s site) preview(ctx context.Context, r *Request, edits []edit, res *Result) error {
	rec, err := s.loadRecord()
	if err != nil {
		return err
	}
	for i, e := range edits {
		p, err := s.planFile(e, i, rec.file(e.path))
		if err != nil {
			return err
		}
		change := "changed"
		switch {
		case p.same():
			change = "unchanged"
		case !p.file.Exists:
			change = "created"
		}
		res.Files = append(res.Files, FileResult{e.path, change, unified(e.path, p.file, p.out, true)})
		res.Notes = append(res.Notes, p.notes...)
	}
	f, err := s.wantedHook(ctx, r)
	if err != nil {
		return err
	}
	res.Hook, res.Reader = f.change, s.readers(f, r)
	return nil
}
