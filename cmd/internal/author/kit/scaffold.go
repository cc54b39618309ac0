package kit

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/author/project"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/scanner"
)

// templates are the projects to begin with, one folder a language.
//
//go:embed all:template
var templates embed.FS

// Scaffold writes a project that builds and passes its own vectors to the folder dir, which must not be there or be
// empty, and gives the files it wrote, relative to dir. Everything comes out of this program: no network, no other
// file.
func Scaffold(name, lang, dir string) ([]string, error) {
	if err := project.CheckName(name); err != nil {
		return nil, err
	}
	if !slices.Contains(Languages, lang) {
		return nil, fmt.Errorf("language %q: want one of %s", Printable(lang, 40), strings.Join(Languages, ", "))
	}
	files, err := filesOf(name, lang)
	if err != nil {
		return nil, err
	}
	return project.Write(dir, files)
}

// filesOf gives the files of a project by their slash-separated names.
func filesOf(name, lang string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if err := project.Fill(files, templates, "template/"+lang, name); err != nil {
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
