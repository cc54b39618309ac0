package kit

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

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/scanner"
)

// templates are the projects to begin with, one folder a language. Files that would be part of our own module carry the
// ending .tmpl, which a project's do not.
//
//go:embed all:template
var templates embed.FS

const (
	placeholder    = "__NAME__"
	templateSuffix = ".tmpl"
)

var projectName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,39}$`)

// Scaffold writes a project that builds and passes its own vectors to the folder dir, which must not be there or be
// empty, and gives the files it wrote, relative to dir. Everything comes out of this program: no network, no other
// file.
func Scaffold(name, lang, dir string) ([]string, error) {
	if !projectName.MatchString(name) || strings.HasSuffix(name, "-") {
		return nil, fmt.Errorf("name %q: want 1–40 letters, digits and dashes, a letter first and no dash last",
			Printable(name, 80))
	}
	if !slices.Contains(Languages, lang) {
		return nil, fmt.Errorf("language %q: want one of %s", Printable(lang, 40), strings.Join(Languages, ", "))
	}
	files, err := project(name, lang)
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
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(file)), files[file]); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// writeFile writes a file that must not be there yet.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// project gives the files of a project by their slash-separated names.
func project(name, lang string) (map[string][]byte, error) {
	files := map[string][]byte{}
	root := "template/" + lang
	err := fs.WalkDir(templates, root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(file)
		if err != nil {
			return err
		}
		rel := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), templateSuffix), placeholder, name)
		files[rel] = []byte(strings.ReplaceAll(string(text), placeholder, name))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("template for %s: %w", lang, err)
	}
	if lang == "go" {
		return files, goModule(name, files)
	}
	sdkFile := recipes[lang].sdk
	text, err := scanner.Source.ReadFile(lang + "/" + sdkFile)
	if err != nil {
		return nil, fmt.Errorf("the SDK for %s: %w", lang, err)
	}
	files[sdkFile] = text
	return files, nil
}

// goDirective is the language version that the SDK's sources need.
const goDirective = "go 1.24\n"

const ourModule = "github.com/yett-dev/yett"

// goModule adds go.mod and, so that a build needs no network, the SDK as a module of its own in the project's folder.
func goModule(name string, files map[string][]byte) error {
	files["go.mod"] = []byte("module example.com/" + name + "\n\n" + goDirective + "\nrequire " + ourModule +
		" v0.0.0\n\nreplace " + ourModule + " => ./yett-sdk\n")
	files["yett-sdk/go.mod"] = []byte("module " + ourModule + "\n\n" + goDirective)
	for dir, source := range map[string]embed.FS{"sdk": sdk.Source, "sdk/abi": abi.Source, "sdk/scanner": scanner.Source} {
		entries, err := source.ReadDir(".")
		if err != nil {
			return err
		}
		for _, e := range entries {
			file := e.Name()
			if e.IsDir() || path.Ext(file) == ".go" && (strings.HasSuffix(file, "_test.go") || file == "source.go") {
				continue
			}
			text, err := source.ReadFile(file)
			if err != nil {
				return err
			}
			files["yett-sdk/"+dir+"/"+file] = text
		}
	}
	return nil
}
