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

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/swap"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
)

// Undo takes the hooks out again, and removes their file. A file that is still what Connect wrote becomes what it was
// before, byte for byte. From a file that others have changed since, exactly our entries are taken out.
func Undo(ctx context.Context, r Request) (*Result, error) {
	s, err := r.check()
	if err != nil {
		return nil, err
	}
	res := &Result{Agent: string(s.agent), Scope: s.scope, HookFile: s.hookFile(), Hook: "unchanged"}
	if _, err := os.Stat(s.own()); err == nil && !r.Print {
		_, held, err := s.lock()
		if err != nil {
			return nil, err
		}
		defer held.Close()
	}
	rec, err := s.loadRecord()
	if err != nil {
		return nil, err
	}
	edits, err := s.undoEdits(rec)
	if err != nil {
		return nil, err
	}
	for _, e := range edits { // nothing is changed before all can be
		if _, err := s.planUndo(e, rec.file(e.path)); err != nil {
			return nil, err
		}
	}
	for _, e := range edits {
		done, err := s.undoFile(e, rec.file(e.path), r.Print)
		if err != nil {
			return res, err
		}
		if done.Change != "" {
			res.Files = append(res.Files, done.FileResult)
		}
		res.Notes = append(res.Notes, done.notes...)
	}
	return res, s.dropOwn(ctx, &r, rec, res)
}

// undoEdits are the files that an undo looks at: those of the record, and those that connect would write today.
func (s site) undoEdits(rec *record) ([]edit, error) {
	edits, err := s.edits(hook.Command{})
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return edits, nil
	}
	var out []edit
	for _, f := range rec.Files {
		found := false
		for _, e := range edits {
			if e.path == f.Path {
				out, found = append(out, e), true
			}
		}
		if !found && s.agent == hook.Codex { // it has two files, and the choice may have become another
			e := edit{path: f.Path, editor: s.jsonFile(nil)}
			if strings.HasSuffix(f.Path, ".toml") {
				e.editor = &tomlFile{}
			}
			out, found = append(out, e), true
		}
		if !found {
			return nil, fmt.Errorf("%s names %s, which is not a file of %s in this scope", s.recordFile(), f.Path, s.agent)
		}
	}
	return out, nil
}

// undone is what an undo does with one file.
type undone struct {
	FileResult
	file   *swap.File
	out    []byte
	remove bool
	notes  []string
}

// planUndo works out what a file becomes. Without a change the Change is empty.
func (s site) planUndo(e edit, rec *fileRecord) (*undone, error) {
	f, err := swap.Read(e.path)
	if err != nil {
		return nil, err
	}
	u := &undone{FileResult: FileResult{Path: e.path}, file: f}
	now := hashOfFile(f)
	switch {
	case !f.Exists:
		return u, nil
	case rec != nil && now == rec.Before:
		return u, nil
	case rec != nil && now == rec.After && rec.Before == "":
		u.Change, u.remove = "removed", true
		return u, nil
	case rec != nil && now == rec.After:
		u.out, err = os.ReadFile(filepath.Join(s.own(), rec.Backup))
		if err == nil && hashOf(u.out) == rec.Before {
			u.Change = "restored"
			return u, nil
		}
		u.notes = append(u.notes, fmt.Sprintf("The backup of %s is missing or was changed: Yett's entries are taken out "+
			"of the file as it is.", e.path))
	}
	return u, s.planTake(e, rec, u)
}

// planTake takes our entries out of a text that is not what we left.
func (s site) planTake(e edit, rec *fileRecord, u *undone) error {
	var made [][]string
	missing := false
	if rec != nil {
		made, missing = rec.Made, rec.Before == ""
	}
	out, err := e.take(u.file.Text, made)
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, err)
	}
	if bytes.Equal(out, u.file.Text) {
		return nil
	}
	if w, is := e.editor.(whole); is {
		return fmt.Errorf("%s was changed since `yett connect` wrote it, or its record is lost: look at it, and remove it "+
			"by hand. %s", e.path, w.advice)
	}
	u.out, u.Change = out, "cleared"
	if missing && e.blank(out) {
		u.remove, u.Change = true, "removed"
		return nil
	}
	if len(u.notes) == 0 { // else it is said why already
		u.notes = append(u.notes, fmt.Sprintf("%s was changed by others since: only Yett's entries were taken out.", e.path))
	}
	return nil
}

func (s site) undoFile(e edit, rec *fileRecord, print bool) (*undone, error) {
	for range attempts {
		u, err := s.planUndo(e, rec)
		if err != nil || u.Change == "" {
			return u, err
		}
		if print {
			u.Diff = unified(e.path, u.file, u.out, !u.remove)
			return u, nil
		}
		if u.remove {
			err = u.file.Remove()
		} else {
			err = u.file.Write(u.out, 0, -1)
			if err == nil && rec != nil && rec.Mode != 0 {
				err = os.Chmod(u.file.Target, fs.FileMode(rec.Mode))
			}
		}
		if !errors.Is(err, swap.ErrChanged) {
			return u, err
		}
	}
	return nil, fmt.Errorf("%s: another program changes this file again and again: stop it, and undo again", e.path)
}

// dropOwn removes our own files, and revokes the key.
func (s site) dropOwn(ctx context.Context, r *Request, rec *record, res *Result) error {
	text, err := os.ReadFile(s.hookFile())
	switch {
	case err == nil:
		res.Hook = "removed"
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if r.Print {
		return nil
	}
	own := []string{s.hookFile(), s.recordFile()}
	entries, err := os.ReadDir(s.own())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), s.stem()+".backup-") {
			own = append(own, filepath.Join(s.own(), e.Name()))
		}
	}
	var key *keyRecord
	if rec != nil {
		key = rec.Key
	}
	switch parsed, err := hookfile.Parse(text); {
	case key != nil:
		revoke(ctx, r.Gateway, key, res)
	case err == nil && parsed.Key != "":
		res.Notes = append(res.Notes, "The key of the hook was given to `yett connect`, and still works: revoke it if "+
			"nothing else uses it.")
	}
	for _, path := range own {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.RemoveAll(wrap.Tickets(s.hookFile())); err != nil {
		return err
	}
	if rec != nil {
		dropDirs(rec.Dirs)
	}
	return nil
}
