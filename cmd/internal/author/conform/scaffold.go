package conform

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/author/project"
)

// templates are the projects to begin with: a folder for each language and kind, and module with what a build needs to
// know of the modules of others.
//
//go:embed all:template
var templates embed.FS

const (
	sdkFolder = "yett-sdk"
	maxSource = 1 << 20 // bytes of one file of the SDK
)

// Kinds and Languages are what a project can be.
var (
	Kinds     = []string{"authorizer", "scanner", "subscriber"}
	Languages = []string{"go", "python"}
)

// sdkPackages are the folders that a plugin in Go is built with.
var sdkPackages = []string{"sdk", "sdk/exact", "sdk/plugin", "sdk/plugin/plugintest", "sdk/proto/v1"}

// pythonFiles are what a plugin in Python is made of, and where they are in our tree.
var pythonFiles = map[string]string{
	"authorizer.py":    "examples/authorizer-python/authorizer.py",
	"yett_plugin.py":   "examples/authorizer-python/yett_plugin.py",
	"requirements.txt": "examples/authorizer-python/requirements.txt",
	"build.sh":         "examples/authorizer-python/build.sh",
	"plugin.proto":     "sdk/proto/v1/plugin.proto",
}

// Scaffold writes a project that builds, passes its own tests and conforms to the folder dir, which must not be there
// or be empty, and gives the files that it wrote, relative to dir. tree is the source of this module (its root), from
// which the SDK is copied; nothing else is read, and there is no network.
func Scaffold(name, kind, lang, dir string, tree fs.FS) ([]string, error) {
	if err := project.CheckName(name); err != nil {
		return nil, err
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
	files, err := filesOf(name, kind, lang, tree)
	if err != nil {
		return nil, err
	}
	return project.Write(dir, files)
}

// filesOf gives the files of a project by their slash-separated names.
func filesOf(name, kind, lang string, tree fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	if err := project.Fill(files, templates, "template/"+lang+"-"+kind, name); err != nil {
		return nil, err
	}
	if lang == "go" {
		if err := project.Fill(files, templates, "template/module", name); err != nil {
			return nil, err
		}
		return files, addSDK(files, tree)
	}
	fill := strings.NewReplacer("amounts-python.pyz", name, "amounts-python", strings.ToLower(name))
	for to, from := range pythonFiles {
		text, err := readSource(tree, from)
		if err != nil {
			return nil, err
		}
		files[to] = []byte(fill.Replace(string(text)))
	}
	return files, nil
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
