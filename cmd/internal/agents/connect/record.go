package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/yett-dev/yett/cmd/internal/agents/swap"
)

// record is what an undo needs to know. It lies beside the hook's file and names no secret.
type record struct {
	Version int          `json:"version"`
	Files   []fileRecord `json:"files"`
	Key     *keyRecord   `json:"key,omitempty"`  // the key that was made here
	Dirs    []string     `json:"dirs,omitempty"` // directories that were made, parents first
}

const recordVersion = 1

// fileRecord is one file of the agent.
type fileRecord struct {
	Path   string     `json:"path"`
	Before string     `json:"before_sha256,omitempty"` // empty if it was missing
	After  string     `json:"after_sha256"`
	Backup string     `json:"backup,omitempty"` // where the text from before lies
	Made   [][]string `json:"made,omitempty"`   // members that were made to hold the hooks
	Mode   uint32     `json:"mode,omitempty"`   // the permissions from before, where they had to change
}

// keyRecord names the key, not its value.
type keyRecord struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Gateway string `json:"gateway"` // the data directory or configuration that the gateway was found by
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// hashOfFile is the hash of a file as it was read, "" if it is missing.
func hashOfFile(f *swap.File) string {
	if !f.Exists {
		return ""
	}
	return hashOf(f.Text)
}

// loadRecord reads the record. It gives nil if nobody has connected the agent here.
func (s site) loadRecord() (*record, error) {
	f, err := swap.Read(s.recordFile())
	if err != nil || !f.Exists {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(f.Text, &r); err != nil || r.Version != recordVersion {
		return nil, fmt.Errorf("%s cannot be read (%v, version %d): move it away, and `yett connect` finds its hooks by "+
			"their text", s.recordFile(), err, r.Version)
	}
	return &r, nil
}

func (r *record) file(path string) *fileRecord {
	if r == nil {
		return nil
	}
	if i := slices.IndexFunc(r.Files, func(f fileRecord) bool { return f.Path == path }); i >= 0 {
		return &r.Files[i]
	}
	return nil
}

func (s site) saveRecord(r *record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return s.keep(s.recordFile(), append(text, '\n'), 0o600, -1)
}

// keep writes a file of our own, which nobody else edits.
func (s site) keep(path string, text []byte, mode fs.FileMode, group int) error {
	f, err := swap.Read(path)
	if err != nil {
		return err
	}
	if f.Exists {
		if info := f.Info(); info.Mode().Perm() != mode || group >= 0 && !hasGroup(info, group) {
			if err := f.Remove(); err != nil {
				return err
			}
			f.Exists = false
		}
	}
	return f.Write(text, mode, group)
}

func hasGroup(info fs.FileInfo, group int) bool {
	_, gid, ok := swap.Owner(info)
	return ok && gid == group
}

// makeDirs makes a directory and what is missing above it, and gives what it made, parents first.
func makeDirs(dir string, mode fs.FileMode) (made []string, err error) {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if made, err = makeDirs(filepath.Dir(dir), mode); err != nil {
		return made, err
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) { // somebody else was faster
			return made, nil
		}
		return made, err
	}
	return append(made, dir), os.Chmod(dir, mode)
}

// dropDirs removes directories that were made and are empty again.
func dropDirs(dirs []string) {
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // it stays if something is in it
	}
}
