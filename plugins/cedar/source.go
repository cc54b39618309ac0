package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The most that policies, entities and schema may be together.
const (
	maxFiles = 1_000
	maxBytes = 32 << 20
)

// source is everything that an engine is made of, as it was read: what is hashed is what is used.
type source struct {
	policies []file // sorted by name
	entities []byte // nil: none
	schema   []byte // nil: none
	bytes    int
}

type file struct {
	name string
	data []byte
}

// digest is a hash over names and contents. A source that changed has another one.
func (s *source) digest() [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	part := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	part(s.entities)
	part(s.schema)
	for _, f := range s.policies {
		part([]byte(f.name))
		part(f.data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// read reads what c points to.
func read(c *config) (*source, error) {
	s := &source{}
	if c.Policy != "" {
		s.policies = []file{{"policy", []byte(c.Policy)}}
	}
	for _, p := range c.Policies {
		if err := s.readPolicies(p); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.policies, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(s.policies); i++ {
		if s.policies[i].name == s.policies[i-1].name {
			return nil, fmt.Errorf("two policy files are called %s", s.policies[i].name)
		}
	}
	var err error
	if c.Entities != "" {
		if s.entities, err = s.readFile(c.Entities); err != nil {
			return nil, err
		}
	}
	if c.Schema != "" {
		if s.schema, err = s.readFile(c.Schema); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readPolicies reads a file, or all files below a directory whose names end in .cedar. Names that begin with two dots are
// left out: mounted configuration keeps its older versions and its switch under such names.
func (s *source) readPolicies(root string) error {
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.addPolicies(root, filepath.Base(root))
	}
	if root, err = filepath.EvalSymlinks(root); err != nil { // WalkDir does not follow the root
		return err
	}
	before := len(s.policies)
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == root:
			return nil
		case strings.HasPrefix(e.Name(), ".."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir() || filepath.Ext(p) != ".cedar":
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return s.addPolicies(p, filepath.ToSlash(rel))
	})
	if err == nil && len(s.policies) == before {
		return fmt.Errorf("no .cedar file in %s", root)
	}
	return err
}

func (s *source) addPolicies(p, name string) error {
	if len(s.policies) >= maxFiles {
		return fmt.Errorf("more than %d files of policies", maxFiles)
	}
	data, err := s.readFile(p)
	if err != nil {
		return err
	}
	s.policies = append(s.policies, file{name, data})
	return nil
}

func (s *source) readFile(p string) ([]byte, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", p)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(maxBytes-s.bytes)+1))
	if err != nil {
		return nil, err
	}
	if s.bytes += len(data); s.bytes > maxBytes {
		return nil, fmt.Errorf("policies, entities and schema are more than %d bytes", maxBytes)
	}
	return data, nil
}
