// Package strict reads settings into a tagged struct, laid over one another in layers: built-in defaults, files, the
// environment and flags. It keeps the place of each value, and explains, compares, prints and documents what it read. A
// key's name, type, default, limits and documentation stand in the tags of the struct's fields and nowhere else. Only
// this package knows koanf, mapstructure and the configuration's YAML. It must never guess, convert or skip: what it
// does not understand is an error with its place. It knows no section and no setting of the program, writes nothing,
// starts nothing and prints no secret.
package strict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
)

// Sources are the layers of settings, weakest first: built-in defaults, Default, File, conf.d, Env, Flags.
type Sources struct {
	File    string         // main file (.yaml, .yml, .json), "" for none; conf.d beside it is read too, by name
	Env     []string       // "NAME=value", as os.Environ gives them
	Flags   map[string]any // by full key ("server.listen"); strings, numbers, bools, durations, lists and maps of these
	Default []byte         // a YAML document weaker than every file
	// DefaultDir is what relative paths in Default are relative to.
	DefaultDir string
	// Files are read in place of files of these names on disk.
	Files map[string][]byte
	// EnvPrefix begins the variables that are settings: with ACME, ACME__SECTION__KEY is one, its value YAML. Variables
	// with one underscore are none.
	EnvPrefix string
}

// MaxFile is the largest file of settings that is read, in bytes.
const MaxFile = 1 << 20

// Loader is one run of reading: the layers, then the files and variables that they refer to. What is wrong goes into
// Report.
type Loader struct {
	Report *Report

	src     Sources
	root    reflect.Type
	dirs    map[string]string // a layer's label to what its relative paths are relative to
	files   []string
	digests map[string]string
	envRead map[string]bool // variables that settings refer to
}

// NewLoader begins to read src. It opens nothing yet.
func NewLoader(src Sources) *Loader {
	return &Loader{Report: NewReport(), src: src, dirs: map[string]string{}, digests: map[string]string{},
		envRead: map[string]bool{}}
}

// Load reads and merges all layers into out, a pointer to a struct, which is not to be used when Err is not nil. It
// reports form only: unknown keys, types and limits.
func (l *Loader) Load(out any) {
	l.root = reflect.TypeOf(out).Elem()
	m := newMerger(l.Report, l.root)
	for _, one := range l.layers() {
		l.dirs[one.label] = one.dir
		m.add(one)
	}
	m.decode(out)
}

// Err is what was found so far, with the files that it was found in, or nil.
func (l *Loader) Err() error {
	err := l.Report.Err()
	if e, ok := errors.AsType[*Error](err); ok {
		e.read = l.digests
	}
	return err
}

// ReadText reads one text into out, a pointer to a struct: YAML or JSON, as ext, such as ".yaml", says. name stands for
// the text in what is wrong with it, and relative paths are relative to its directory. Problems go into r, and out is
// then not to be used.
func ReadText(r *Report, name, ext string, text []byte, out any) {
	if l := parseFile(r, name, ext, text); l != nil {
		m := newMerger(r, reflect.TypeOf(out).Elem())
		m.add(l)
		m.decode(out)
	}
}

// layers reads all sources into trees, weakest first.
func (l *Loader) layers() []*layer {
	var out []*layer
	if l.src.Default != nil {
		if root := parseYAML(l.Report, "defaults", l.src.Default); root != nil {
			out = append(out, &layer{label: "defaults", dir: l.src.DefaultDir, lines: true, root: root})
		}
	}
	if l.src.File != "" {
		for i, path := range append([]string{l.src.File}, l.dropIns()...) {
			data, err := l.Read(path, MaxFile)
			if err != nil {
				l.Report.Add(Pos{File: path}, "", "%s", err)
				continue
			}
			one := parseFile(l.Report, path, filepath.Ext(path), data)
			if one == nil {
				continue
			}
			if i == 0 {
				l.checkMain(one)
			}
			out = append(out, one)
		}
	}
	out = append(out, parseEnv(l.Report, l.src.EnvPrefix+"__", l.src.Env)...)
	return append(out, parseFlags(l.Report, l.src.Flags)...)
}

// checkMain wants the keys that the main file must give itself.
func (l *Loader) checkMain(file *layer) {
	for _, f := range fieldsOf(l.root) {
		if f.inFile && !hasKey(file, f.key) {
			l.Report.Add(file.pos(file.root), f.key, "is required; write %s: %s", f.key, f.def)
		}
	}
}

func hasKey(l *layer, key string) bool {
	for i := 0; i+1 < len(l.root.Content); i += 2 {
		if l.root.Content[i].Value == key {
			return true
		}
	}
	return false
}

// IsDropIn says whether a file of conf.d is read, by its name. Others, such as .bak, are not settings.
func IsDropIn(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json", ".toml":
		return true
	}
	return false
}

// dropIns lists the files of conf.d beside the main file by name.
func (l *Loader) dropIns() []string {
	dir := filepath.Join(filepath.Dir(l.src.File), "conf.d")
	var out []string
	add := func(path string) {
		if IsDropIn(path) {
			out = append(out, path)
		}
	}
	for path := range l.src.Files {
		if filepath.Dir(path) == dir {
			add(path)
		}
	}
	if _, inMemory := l.src.Files[l.src.File]; !inMemory {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.Report.Add(Pos{File: dir}, "", "%s", unwrapped(err))
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if add(path); !IsDropIn(path) && IsDropIn(strings.ToLower(path)) {
				l.Report.Add(Pos{File: path}, "", "is not read: write the end of its name in small letters, or move it away")
			}
		}
	}
	sort.Strings(out)
	return out
}
