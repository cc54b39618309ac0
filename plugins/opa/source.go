package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/loader/filter"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/plugins/internal/regular"
)

// The most that policies and data may be, unpacked.
const (
	maxFiles = 10_000
	maxBytes = 64 << 20
)

// source is everything that policies are compiled from, as it was read: what is hashed is what is compiled.
type source struct {
	config *config
	files  []policyfiles.File // sorted by name, such as "/authz/policy.rego"
	bytes  int
}

// Digest is a hash over names and contents. A source that changed has another one.
func (s *source) Digest() [sha256.Size]byte { return policyfiles.Digest(s.files) }

// Load makes an engine of what was read.
func (s *source) Load(ctx context.Context) (*engine, error) { return compile(ctx, s.config, s) }

func (s *source) add(name string, data []byte) error {
	s.bytes += len(data)
	switch {
	case len(s.files) >= maxFiles:
		return fmt.Errorf("more than %d files", maxFiles)
	case s.bytes > maxBytes:
		return fmt.Errorf("more than %d bytes", maxBytes)
	}
	s.files = append(s.files, policyfiles.File{Name: path.Clean("/" + filepath.ToSlash(name)), Data: data})
	return nil
}

// room is how many more bytes a file may have. Who reads one more has read too much.
func (s *source) room() int { return maxBytes - s.bytes }

// read reads what c points to.
func read(c *config) (*source, error) {
	s := &source{config: c}
	var err error
	switch {
	case c.Policy != "":
		err = s.add("policy.rego", []byte(c.Policy))
	case c.Bundle != "":
		err = s.readBundle(c.Bundle)
	default:
		for _, p := range c.Paths {
			if err = s.readPath(p); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if twice := policyfiles.Sort(s.files); twice != "" {
		return nil, fmt.Errorf("two files are %s%s", twice, oneDocument(c, twice))
	}
	return s, nil
}

// oneDocument explains how two entries of paths come to be one file.
func oneDocument(c *config, name string) string {
	if len(c.Paths) > 0 && dataNames[name[1:]] {
		return ": of paths, one JSON and one YAML document at most are for the root of data; put further ones into " +
			"directories"
	}
	return ""
}

// dataNames are the names under which data is found in a directory or an archive.
var dataNames = map[string]bool{"data.json": true, "data.yaml": true, "data.yml": true}

// unread are files that look like data, but that are not found under their names.
func (s *source) unread() (names []string) {
	for _, f := range s.files {
		base := path.Base(f.Name)
		switch path.Ext(base) {
		case ".json", ".yaml", ".yml":
			if !dataNames[base] && base != ".signatures.json" {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

func (s *source) readBundle(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return s.readDir(p)
	}
	return s.readArchive(p)
}

// readPath reads one of paths: a directory as a bundle has it, a .rego file, or a JSON or YAML document for the root of
// data.
func (s *source) readPath(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return s.readDir(p)
	}
	name := filepath.Base(p)
	switch filepath.Ext(p) {
	case ".rego":
	case ".json":
		name = "data.json"
	case ".yaml", ".yml":
		name = "data.yaml"
	default:
		return fmt.Errorf("%s is neither .rego nor .json nor .yaml", p)
	}
	return s.readFile(p, name)
}

func (s *source) readDir(root string) error { return policyfiles.Walk(root, s.readFile) }

func (s *source) readFile(p, name string) error {
	data, err := regular.Read(p, s.room())
	if err != nil {
		return err
	}
	return s.add(name, data)
}

// readArchive unpacks a .tar.gz in memory.
func (s *source) readArchive(p string) error {
	f, err := regular.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s is no directory and no .tar.gz: %w", p, err)
	}
	all := &io.LimitedReader{R: z, N: 2 * maxBytes} // headers and padding too
	t := tar.NewReader(all)
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && all.N <= 0:
			return fmt.Errorf("%s unpacks to more than %d bytes", p, maxBytes)
		case err != nil:
			return fmt.Errorf("read %s: %w", p, err)
		case h.Typeflag == tar.TypeDir:
			continue
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%s: %q is not a regular file", p, h.Name)
		}
		data, err := io.ReadAll(io.LimitReader(t, int64(s.room())+1))
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		if err := s.add(h.Name, data); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
}

// feed hands a source to OPA's bundle reader.
type feed struct{ rest []policyfiles.File }

var _ bundle.DirectoryLoader = (*feed)(nil)

func (f *feed) NextFile() (*bundle.Descriptor, error) {
	if len(f.rest) == 0 {
		return nil, io.EOF
	}
	next := f.rest[0]
	f.rest = f.rest[1:]
	return bundle.NewDescriptor(next.Name, next.Name, bytes.NewBuffer(slices.Clone(next.Data))), nil
}

// The reader asks for these; a feed has been filtered and measured before.
func (f *feed) WithFilter(filter.LoaderFilter) bundle.DirectoryLoader   { return f }
func (f *feed) WithPathFormat(bundle.PathFormat) bundle.DirectoryLoader { return f }
func (f *feed) WithSizeLimitBytes(int64) bundle.DirectoryLoader         { return f }
func (f *feed) WithFollowSymlinks(bool) bundle.DirectoryLoader          { return f }
