package kit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Languages are those that a project can be written in.
var Languages = []string{"go", "rust", "c", "assemblyscript"}

// recipe is how a project in one language is recognised and built.
type recipe struct {
	main string // the file that says it is this language
	sdk  string // the file of the SDK that lies beside it; "" for Go
	env  string // names the compiler
	// compilers to try, in order; relative ones with a separator start at the project
	tools   []string
	missing string                                       // what to install
	fits    func(ctx context.Context, tool string) error // says why a compiler that is there cannot do it; nil: any can
	args    func(dir, out string) []string
	setting func(dir string) []string // environment beside our own
}

var recipes = map[string]recipe{
	"go": {
		main: "main.go", env: "GO", tools: []string{"go"}, missing: "install Go 1.24 or later (golang.org/dl)",
		args: func(_, out string) []string {
			return []string{"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "."}
		},
		setting: goSetting,
	},
	"rust": {
		main: "main.rs", sdk: "yett.rs", env: "RUSTC", tools: []string{"rustc", "/usr/bin/rustc"}, fits: rustTarget,
		missing: "install rustc with the target wasm32-unknown-unknown (Debian: rustc libstd-rust-dev-wasm32 lld)",
		args: func(_, out string) []string {
			return []string{"--edition", "2021", "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib", "-C",
				"opt-level=3", "-C", "panic=abort", "-C", "lto", "-C", "strip=symbols", "-C", "link-arg=-zstack-size=65536", "-o",
				out, "main.rs"}
		},
	},
	"c": {
		main: "main.c", sdk: "yett.h", env: "CLANG",
		tools:   []string{"clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"},
		missing: "install clang with its linker for WASM (Debian: clang lld)",
		args: func(_, out string) []string {
			return []string{"--target=wasm32", "-std=c11", "-O2", "-nostdlib", "-ffreestanding", "-fvisibility=hidden",
				"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536", "-o", out, "main.c"}
		},
	},
	"assemblyscript": {
		main: "main.ts", sdk: "yett.ts", env: "ASC", tools: []string{"asc", "node_modules/.bin/asc"},
		missing: "install the AssemblyScript compiler (npm install assemblyscript)",
		args: func(dir, out string) []string {
			abort := "abort=" // no message: the function that logs it is the SDK's, found only beside the main file
			if _, err := os.Stat(filepath.Join(dir, "yett.ts")); err == nil {
				abort = "abort=yett/abort"
			}
			return []string{"main.ts", "-O3", "--runtime", "minimal", "--exportStart", "_initialize", "--use", abort, "-o", out}
		},
	},
}

// goSetting keeps a build offline and apart from what surrounds the project.
func goSetting(dir string) []string {
	set := []string{"GOOS=wasip1", "GOARCH=wasm", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local"}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return append(set, "GOFLAGS=-mod=mod")
	}
	return append(set, "GOFLAGS=") // part of a larger module, whose go.mod is not ours to change
}

func rustTarget(ctx context.Context, tool string) error {
	out, err := exec.CommandContext(ctx, tool, "--print", "target-libdir", "--target", "wasm32-unknown-unknown").Output()
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", tool, err)
	}
	files, err := os.ReadDir(strings.TrimSpace(string(out)))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no target wasm32-unknown-unknown", tool)
	}
	return nil
}

// LanguageOf tells the language of the project in dir by its main file.
func LanguageOf(dir string) (string, error) {
	var found []string
	for _, lang := range Languages {
		if info, err := os.Stat(filepath.Join(dir, recipes[lang].main)); err == nil && info.Mode().IsRegular() {
			found = append(found, lang)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("%s holds no scanner project: want one of main.go, main.rs, main.c and main.ts", dir)
	}
	return "", fmt.Errorf("%s holds main files of several languages: %s", dir, strings.Join(found, ", "))
}

// BuildError is a compiler that did not make a module. Output is what it said.
type BuildError struct {
	Command string
	Output  string
	Err     error
}

func (e *BuildError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %v\n%s", e.Command, e.Err, e.Output))
}
func (e *BuildError) Unwrap() error { return e.Err }

// maxOutput bounds what is kept of a compiler's words, bytes.
const maxOutput = 16 << 10

// Build compiles the project in dir to DIR/NAME.wasm, NAME being the name of the folder, and reads the module.
func Build(ctx context.Context, dir string) (Module, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Module{}, err
	}
	lang, err := LanguageOf(dir)
	if err != nil {
		return Module{}, err
	}
	r := recipes[lang]
	tool, err := r.tool(ctx, dir)
	if err != nil {
		return Module{}, fmt.Errorf("build %s: %w", dir, err)
	}
	out := hostName(dir) + ".wasm"
	args := r.args(dir, out)
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	if r.setting != nil {
		cmd.Env = append(cmd.Env, r.setting(dir)...)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		text := said.String()
		return Module{}, &BuildError{Command: tool + " " + strings.Join(args, " "), Output: text[:min(len(text), maxOutput)],
			Err: cmp.Or(ctx.Err(), err)}
	}
	return ReadModule(filepath.Join(dir, out))
}

// tool finds the compiler: the one that the environment names, or the first that is there and can do it.
func (r *recipe) tool(ctx context.Context, dir string) (string, error) {
	tools := r.tools
	if named := os.Getenv(r.env); named != "" {
		tools = []string{named}
	}
	var why []error
	for _, name := range tools {
		if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) && os.Getenv(r.env) == "" {
			name = filepath.Join(dir, name)
		}
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err == nil && r.fits != nil {
			err = r.fits(ctx, path)
		}
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			why = append(why, err)
		}
	}
	if len(why) == 0 {
		return "", fmt.Errorf("there is no %s: %s, or name a compiler with %s=", strings.Join(slices.Compact(tools), " or "),
			r.missing, r.env)
	}
	return "", fmt.Errorf("%w: %s, or name a compiler with %s=", errors.Join(why...), r.missing, r.env)
}
