package conform

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// templates are the projects to begin with: a folder for each language and kind, and module with what a build needs to
// know of the modules of others. Files that would be part of our own module carry the ending .tmpl, which a project's
// do not.
//
//go:embed all:template
var templates embed.FS

const (
	placeholder      = "__NAME__"  // as it was given
	lowerPlaceholder = "__LOWER__" // as Info and the configuration have it
	templateSuffix   = ".tmpl"
	sdkFolder        = "yett-sdk"
	maxSource        = 1 << 20 // bytes of one file of the SDK
)

// Kinds and Languages are what a project can be.
var (
	Kinds     = []string{"authorizer", "scanner", "subscriber"}
	Languages = []string{"go", "python"}
)

var projectName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,39}$`)

// sdkPackages are the folders that a plugin in Go is built with.
var sdkPackages = []string{"sdk", "sdk/exact", "sdk/plugin", "sdk/plugin/plugintest", "sdk/proto/v1"}

// pythonFiles are what a plugin in Python is made of, and where they are in our tree.
var pythonFiles = map[string]string{
	"authorizer.py":    "examples/authorizer-python/authorizer.py",
	"yett_plugin.py":   "examples/authorizer-python/yett_plugin.py",
	"requirements.txt": "examples/authorizer-python/requirements.txt",
	"plugin.proto":     "sdk/proto/v1/plugin.proto",
}

// Scaffold writes a project that builds, passes its own tests and conforms to the folder dir, which must not be there
// or be empty, and gives the files that it wrote, relative to dir. tree is the source of this module (its root), from
// which the SDK is copied; nothing else is read, and there is no network.
func Scaffold(name, kind, lang, dir string, tree fs.FS) ([]string, error) {
	if !projectName.MatchString(name) || strings.HasSuffix(name, "-") {
		return nil, fmt.Errorf("name %q: want 1–40 letters, digits and dashes, a letter first and no dash last",
			short(oneLine(name)))
	}
	if name == sdkFolder {
		return nil, fmt.Errorf("name %q: that is the folder of the SDK in the project, where its program would be built",
			name)
	}
	if !slices.Contains(Kinds, kind) {
		return nil, fmt.Errorf("kind %q: want one of %s", short(oneLine(kind)), strings.Join(Kinds, ", "))
	}
	if !slices.Contains(Languages, lang) {
		return nil, fmt.Errorf("language %q: want one of %s", short(oneLine(lang)), strings.Join(Languages, ", "))
	}
	if lang == "python" && kind != "authorizer" {
		return nil, fmt.Errorf("there is no project for a %s in Python: in that language there are authorizers", kind)
	}
	files, err := project(name, kind, lang, tree)
	if err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty: a project gets a folder of its own", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	names := make([]string, 0, len(files))
	for file := range files {
		names = append(names, file)
	}
	slices.Sort(names)
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

// project gives the files of a project by their slash-separated names.
func project(name, kind, lang string, tree fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	if err := addTemplate(files, "template/"+lang+"-"+kind, name); err != nil {
		return nil, err
	}
	if lang == "go" {
		if err := addTemplate(files, "template/module", name); err != nil {
			return nil, err
		}
		return files, addSDK(files, tree)
	}
	for to, from := range pythonFiles {
		text, err := readSource(tree, from)
		if err != nil {
			return nil, err
		}
		files[to] = []byte(strings.ReplaceAll(string(text), "amounts-python", strings.ToLower(name)))
	}
	return files, nil
}

// addTemplate adds the files of one folder of templates.
func addTemplate(files map[string][]byte, root, name string) error {
	return fs.WalkDir(templates, root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(file)
		if err != nil {
			return err
		}
		fill := strings.NewReplacer(placeholder, name, lowerPlaceholder, strings.ToLower(name))
		files[fill.Replace(strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), templateSuffix))] =
			[]byte(fill.Replace(string(text)))
		return nil
	})
}

// addSDK adds the SDK as a module of its own, so that a build needs no network for it.
func addSDK(files map[string][]byte, tree fs.FS) error {
	for _, dir := range sdkPackages {
		entries, err := fs.ReadDir(tree, dir)
		if err != nil {
			return fmt.Errorf("the SDK's source: %w", err)
		}
		for _, e := range entries {
			file := e.Name()
			isGo := path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") && file != "source.go"
			if e.IsDir() || !isGo && path.Ext(file) != ".proto" && path.Ext(file) != ".md" {
				continue
			}
			if files[sdkFolder+"/"+dir+"/"+file], err = readSource(tree, path.Join(dir, file)); err != nil {
				return err
			}
		}
	}
	return nil
}

func readSource(tree fs.FS, file string) ([]byte, error) {
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return nil, fmt.Errorf("the SDK's source: %w", err)
	}
	if len(text) > maxSource {
		return nil, fmt.Errorf("the SDK's source: %s has %d bytes, at most %d", file, len(text), maxSource)
	}
	return text, nil
}
