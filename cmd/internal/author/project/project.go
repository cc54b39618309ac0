// Package project writes the projects that authors begin with, of scanners and of plugins alike: what one may be
// called, how its templates are filled in, and how its files reach the disk. It knows no language and no SDK. It must
// never write over a file, and reads nothing but the templates that it is given.
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/quote"
)

// What stands for the project's name in templates and in the names of their files, and the ending of files that would
// be part of our own module. A project has none of these.
const (
	Name   = "__NAME__"  // as it was given
	Lower  = "__LOWER__" // in lower case
	Suffix = ".tmpl"
)

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,39}$`)

// CheckName says what is wrong with the name of a project, or nil.
func CheckName(name string) error {
	if !nameForm.MatchString(name) || strings.HasSuffix(name, "-") {
		return fmt.Errorf("name %q: want 1–40 letters, digits and dashes, a letter first and no dash last",
			quote.Short(name, 80))
	}
	return nil
}

// Fill adds the files of one folder of templates for the project of a name to files, by their slash-separated names.
func Fill(files map[string][]byte, templates fs.FS, root, name string) error {
	fill := strings.NewReplacer(Name, name, Lower, strings.ToLower(name))
	return fs.WalkDir(templates, root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(templates, file)
		if err != nil {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), Suffix)
		files[fill.Replace(to)] = []byte(fill.Replace(string(text)))
		return nil
	})
}

// Write writes files to the folder dir, which must not be there or be empty, and gives their names, sorted.
func Write(dir string, files map[string][]byte) ([]string, error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty: a project gets a folder of its own", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	names := slices.Sorted(maps.Keys(files))
	for _, file := range names {
		if err := writeNew(filepath.Join(dir, filepath.FromSlash(file)), files[file]); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// writeNew writes a file that must not be there yet. Scripts can be run.
func writeNew(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(string(data), "#!") {
		mode = 0o755
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
