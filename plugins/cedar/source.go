package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/plugins/internal/regular"
)

// The most that policies, entities and schema may be together.
const (
	maxFiles = 1_000
	maxBytes = 32 << 20
)

// source is everything that an engine is made of, as it was read: what is hashed is what is used.
type source struct {
	config   *config
	policies []policyfiles.File // sorted by name
	entities []byte             // nil: none
	schema   []byte             // nil: none
	bytes    int
}

// Digest is a hash over names and contents. A source that changed has another one.
func (s *source) Digest() [sha256.Size]byte {
	return policyfiles.Digest(s.policies, s.entities, s.schema)
}

// Load makes an engine of what was read.
func (s *source) Load(context.Context) (*engine, error) { return load(s.config, s) }

// read reads what c points to.
func read(c *config) (*source, error) {
	s := &source{config: c}
	if c.Policy != "" {
		s.policies = []policyfiles.File{{Name: "policy", Data: []byte(c.Policy)}}
	}
	for _, p := range c.Policies {
		if err := s.readPolicies(p); err != nil {
			return nil, err
		}
	}
	if twice := policyfiles.Sort(s.policies); twice != "" {
		return nil, fmt.Errorf("two policy files are called %s", twice)
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

// readPolicies reads a file, or all files below a directory whose names end in .cedar.
func (s *source) readPolicies(root string) error {
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.addPolicies(root, filepath.Base(root))
	}
	if root, err = filepath.EvalSymlinks(root); err != nil { // a message about it names where it leads
		return err
	}
	before := len(s.policies)
	err = policyfiles.Walk(root, func(p, name string) error {
		if filepath.Ext(p) != ".cedar" {
			return nil
		}
		return s.addPolicies(p, name)
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
	s.policies = append(s.policies, policyfiles.File{Name: name, Data: data})
	return nil
}

func (s *source) readFile(p string) ([]byte, error) {
	data, err := regular.Read(p, maxBytes-s.bytes)
	if err != nil {
		return nil, err
	}
	if s.bytes += len(data); s.bytes > maxBytes {
		return nil, fmt.Errorf("policies, entities and schema are more than %d bytes", maxBytes)
	}
	return data, nil
}
