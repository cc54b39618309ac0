package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// LockName is the name of the file beside the main file that pins modules.
const LockName = "plugins.lock"

// Lock is what yett plugin lock writes: which bytes each plugin's file held, and who had signed them.
type Lock struct {
	Version int                   `koanf:"version" default:"1" enum:"1" doc:"Version of this format."`
	Plugins map[string]LockedFile `koanf:"plugins" doc:"Modules by their names in the configuration."`
}

// LockedFile is one pinned module.
type LockedFile struct {
	Wasm   Path   `koanf:"wasm" doc:"The file of a module. Exactly one of wasm and exec is set."`
	Exec   Path   `koanf:"exec" doc:"The file of a program."`
	Digest string `koanf:"digest" req:"true" format:"digest" doc:"SHA-256 of the file."`
	Signer string `koanf:"signer" format:"name" doc:"Name of the key that signed it."`
}

// lock is a Lock that was read, and where.
type lock struct {
	path string // "" when there is none
	Lock
}

// readLock reads the lock beside the main file, if there is one. A lock that cannot be understood is a problem of the
// configuration: leaving it out would let go of what it pins.
func (l *loader) readLock() *lock {
	if l.src.File == "" {
		return &lock{}
	}
	path := filepath.Join(filepath.Dir(l.src.File), LockName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && l.src.Files[path] == nil {
		return &lock{}
	}
	data, err := l.Read(path, strict.MaxFile)
	if err != nil {
		l.Report.Add(Pos{File: path}, "", "%s", err)
		return &lock{}
	}
	out := &lock{path: path}
	// A report of its own: the lock's keys must not pass for those of the configuration.
	own := strict.NewReport()
	strict.ReadText(own, path, ".yaml", data, &out.Lock)
	l.Report.AddAll(own)
	return out
}

// ReadLock reads the text of a lock; the lock of an empty text is empty.
func ReadLock(text []byte) (Lock, error) {
	var out Lock
	if len(text) == 0 {
		return out, nil
	}
	r := strict.NewReport()
	strict.ReadText(r, LockName, ".yaml", text, &out)
	if err := r.Err(); err != nil {
		return Lock{}, err
	}
	return out, nil
}

// apply gives a module the digest and the signer that the lock has for it.
func (k *lock) apply(r *strict.Report, p *Plugin, name string, relock bool) {
	entry, ok := k.Plugins[name]
	if !ok || p.File() == "" || relock {
		return
	}
	key, source := strict.Join("plugins", name), "wasm"
	if p.Exec != "" {
		source = "exec"
	}
	if !sameFile(string(entry.Wasm), string(p.Wasm)) || !sameFile(string(entry.Exec), string(p.Exec)) {
		r.Errorf(strict.Join(key, source), "%s pins %s for this plugin; run yett plugin lock", k.path,
			filepath.Clean(string(entry.Wasm+entry.Exec)))
		return
	}
	switch p.Digest {
	case "":
		p.Digest = entry.Digest
	case entry.Digest:
	default:
		r.Errorf(strict.Join(key, "digest"), "%s says %s; run yett plugin lock, or correct this one", k.path, entry.Digest)
	}
	p.Signer = entry.Signer
}

// sameFile says whether two paths name one file: the lock may name it from the root, and the configuration from where
// it lies.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	first, err1 := filepath.Abs(a)
	second, err2 := filepath.Abs(b)
	return err1 == nil && err2 == nil && first == second
}

// Encode gives the text of a lock for the directory dir, the same for the same content. Files below dir are written
// relative to it, so that a directory can be moved as a whole.
func (k Lock) Encode(dir string) []byte {
	var b strings.Builder
	b.WriteString("# Written by yett plugin lock: the bytes that each plugin's file must hold.\nversion: 1\n")
	if len(k.Plugins) > 0 {
		b.WriteString("plugins:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Plugins)) {
		f := k.Plugins[name]
		source, path := "wasm", string(f.Wasm)
		if f.Exec != "" {
			source, path = "exec", string(f.Exec)
		}
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		fmt.Fprintf(&b, "  %s: {%s: %s, digest: %s", strict.YAMLText(name), source, strict.YAMLText(path),
			strict.YAMLText(f.Digest))
		if f.Signer != "" {
			fmt.Fprintf(&b, ", signer: %s", strict.YAMLText(f.Signer))
		}
		b.WriteString("}\n")
	}
	return []byte(b.String())
}
