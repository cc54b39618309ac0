package scan

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/yett-dev/yett/core/regular"
)

// A baseline is committed, so whoever reads the repository reads it. It must not say what the values are, and a short
// value must not be found by trying. So without a key of the user's it keeps 16 bits of a slow hash of a value:
// whatever is tried, one in 65 536 other values fits as well. With --baseline-key, which stays out of the repository,
// it keeps 128 bits of a keyed hash, and nothing can be tried without the key.

const (
	maxBaseline  = 64 << 20 // bytes
	saltSize     = 16       // bytes
	shortTag     = 2        // bytes, without a key
	longTag      = 16       // bytes, with one
	slowMemory   = 16 << 10 // KiB
	minKey       = 16       // bytes
	maxKey       = 4 << 10  // bytes
	baselineForm = 1
)

// known is findings that a baseline has: so many of a kind with the same value in a file.
type known struct {
	File  string `json:"file"` // from the folder of the baseline
	Kind  string `json:"kind"`
	Value string `json:"value"`
	Count int    `json:"count"`
}

// baselineDoc is the file.
type baselineDoc struct {
	Version  int     `json:"version"`
	Salt     string  `json:"salt"`
	Keyed    bool    `json:"keyed"`
	Findings []known `json:"findings"`
}

// baseline knows findings by their kind, their file and their value, and counts them. It is not for concurrent use.
type baseline struct {
	path, dir, base string // dir: of the file; base: what names of files are relative to
	salt, key       []byte
	left            map[known]int  // with Count 0
	kinds           map[known]bool // with File and Kind alone: the others need no hash
	tags            map[string]string
	seen            map[known]int
}

// openBaseline reads a baseline. A new one has a salt of its own.
func openBaseline(ctx context.Context, path, keyFile, base string, write bool) (b *baseline, err error) {
	b = &baseline{path: path, left: map[known]int{}, kinds: map[known]bool{}, tags: map[string]string{},
		seen: map[known]int{}}
	if b.base, err = filepath.Abs(base); err == nil {
		b.dir, err = filepath.Abs(filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	b.dir, b.base = resolved(b.dir), resolved(b.base)
	if keyFile != "" {
		if b.key, err = regular.ReadNamed(ctx, keyFile, maxKey); err != nil {
			return nil, fmt.Errorf("--baseline-key: %w", err)
		}
		if b.key = bytes.TrimSpace(b.key); len(b.key) < minKey {
			return nil, fmt.Errorf("--baseline-key %s: the key has %d bytes, expected at least %d", keyFile, len(b.key), minKey)
		}
	}
	text, err := regular.ReadNamed(ctx, path, maxBaseline)
	if errors.Is(err, fs.ErrNotExist) && write {
		b.salt = make([]byte, saltSize)
		_, err = rand.Read(b.salt)
		return b, err
	}
	if err == nil {
		err = b.read(text, write)
	}
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	return b, nil
}

// resolved is a path without links, as far as there is one.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func (b *baseline) read(text []byte, write bool) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s is not a baseline: %w", b.path, fmt.Errorf(format, args...))
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var doc baselineDoc
	if err := dec.Decode(&doc); err != nil {
		return bad("%w", err)
	}
	if dec.More() {
		return bad("there is text behind its end")
	}
	if doc.Version != baselineForm {
		return bad("version %d, expected %d", doc.Version, baselineForm)
	}
	var err error
	if b.salt, err = hex.DecodeString(doc.Salt); err != nil || len(b.salt) != saltSize {
		return bad("salt: expected %d bytes in hexadecimal", saltSize)
	}
	if write { // all that it knows is replaced
		return nil
	}
	switch keyed := b.key != nil; {
	case doc.Keyed && !keyed:
		return fmt.Errorf("%s was written with a key: give it with --baseline-key", b.path)
	case !doc.Keyed && keyed:
		return fmt.Errorf("%s was written without a key: leave out --baseline-key, or write it again with "+
			"--write-baseline", b.path)
	}
	for i, k := range doc.Findings {
		if tag, err := hex.DecodeString(k.Value); err != nil || len(tag) != b.tagSize() || k.Count < 1 || k.File == "" ||
			k.Kind == "" {
			return bad("findings[%d]: expected a file, a kind, a value of %d bytes in hexadecimal and a count", i, b.tagSize())
		}
		n := k.Count
		k.Count = 0
		b.left[k] += n
		b.kinds[known{File: k.File, Kind: k.Kind}] = true
	}
	return nil
}

func (b *baseline) tagSize() int {
	if b.key != nil {
		return longTag
	}
	return shortTag
}

// tag stands for a value.
func (b *baseline) tag(value string) string {
	if t, ok := b.tags[value]; ok {
		return t
	}
	var sum []byte
	if b.key != nil {
		mac := hmac.New(sha256.New, b.key)
		mac.Write(b.salt)
		mac.Write([]byte(value))
		sum = mac.Sum(nil)
	} else {
		sum = argon2.IDKey([]byte(value), b.salt, 1, slowMemory, 1, shortTag+2) // the least that it gives is 4
	}
	t := hex.EncodeToString(sum[:b.tagSize()])
	b.tags[value] = t
	return t
}

// place is the file of a finding as the baseline names it.
func (b *baseline) place(name string) string {
	if name == "-" {
		return name
	}
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.base, path)
	}
	rel, err := filepath.Rel(b.dir, path)
	if err != nil {
		return name
	}
	return filepath.ToSlash(rel)
}

// has reports whether a finding is known, and counts it.
func (b *baseline) has(f *Finding) bool {
	k := known{File: b.place(f.File), Kind: f.Kind}
	if !b.kinds[k] {
		return false
	}
	k.Value = b.tag(f.value)
	if b.left[k] == 0 {
		return false
	}
	b.left[k]--
	return true
}

// gone is how many findings of the baseline were not found again.
func (b *baseline) gone() (n int) {
	for _, left := range b.left {
		n += left
	}
	return n
}

// add remembers a finding for write.
func (b *baseline) add(f *Finding) {
	b.seen[known{File: b.place(f.File), Kind: f.Kind, Value: b.tag(f.value)}]++
}

// write replaces the file in one step.
func (b *baseline) write() (err error) {
	doc := baselineDoc{Version: baselineForm, Salt: hex.EncodeToString(b.salt), Keyed: b.key != nil, Findings: []known{}}
	for k, n := range b.seen {
		k.Count = n
		doc.Findings = append(doc.Findings, k)
	}
	slices.SortFunc(doc.Findings, func(x, y known) int {
		return cmp.Or(strings.Compare(x.File, y.File), strings.Compare(x.Kind, y.Kind), strings.Compare(x.Value, y.Value))
	})
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	f, err := os.CreateTemp(b.dir, "."+filepath.Base(b.path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(b.dir, filepath.Base(b.path)))
}
