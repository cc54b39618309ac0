package author

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/conform"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/regular"
)

const ownModule = "github.com/yett-dev/yett"

func pluginScaffold() *cobra.Command {
	var kind, lang, dir, sdk string
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "new NAME [--kind authorizer|scanner|subscriber] [--lang go|python]",
		Short: "Write a plugin project that builds, passes its tests and conforms",
		Long: "Write a project for a process plugin to a folder of its own; no file is overwritten. The SDK is copied " +
			"into it, from --sdk,\n" +
			"from the module cache of Go (go mod download " + ownModule +
			") or from the checkout that this program was built from, so\n" +
			"nothing is downloaded. A project in Python is an authorizer; its build.sh needs grpcio.",
		Example: "  yett plugin new entitle && cd entitle && go build -o entitle . && yett plugin conform ./entitle",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				dir = args[0]
			}
			if !slices.Contains(conform.Kinds, kind) {
				return cli.Usage("--kind %q: want one of %s", kind, strings.Join(conform.Kinds, ", "))
			}
			if !slices.Contains(conform.Languages, lang) {
				return cli.Usage("--lang %q: want one of %s", lang, strings.Join(conform.Languages, ", "))
			}
			tree, err := sdkSource(sdk)
			if err != nil {
				return err
			}
			files, err := conform.Scaffold(args[0], kind, lang, dir, tree)
			if err != nil {
				return err
			}
			if err := printWritten(cmd, &out, dir, files); err != nil {
				return err
			}
			build := "go test ./... && go build -o " + args[0] + " ."
			if lang == "python" {
				build = "./build.sh " + args[0]
			}
			calls := ""
			if kind == "authorizer" {
				calls = " --calls calls.jsonl"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "next: cd %s && %s && yett plugin conform ./%s%s\n", cli.Quoted(dir), build, args[0],
				calls)
			return nil
		},
	}
	out.Bind(cmd)
	cmd.Flags().StringVar(&kind, "kind", "authorizer", "what it is: "+strings.Join(conform.Kinds, ", "))
	cmd.Flags().StringVar(&lang, "lang", "go", "language: "+strings.Join(conform.Languages, ", "))
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write to (default ./NAME)")
	cmd.Flags().StringVar(&sdk, "sdk", "", "folder of Yett's source (default: the module cache of Go, or where this "+
		"program was built)")
	return cmd
}

// printWritten lists the files of a new project.
func printWritten(cmd *cobra.Command, out *cli.Output, dir string, files []string) error {
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = filepath.Join(dir, filepath.FromSlash(f))
	}
	row := struct {
		Dir   string   `json:"dir"`
		Files []string `json:"files"`
	}{dir, paths}
	return out.PrintOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.Join(paths, "\n"))
		return err
	})
}

// sdkSource is the tree that a project's SDK is copied from.
func sdkSource(given string) (fs.FS, error) {
	if given == "" {
		var err error
		if given, err = cachedSource(); err != nil {
			given = builtFrom()
		}
		if given == "" {
			return nil, fmt.Errorf("the SDK's source is neither in the module cache (%w) nor where this program was built: "+
				"give a checkout of %s with --sdk DIR", err, ownModule)
		}
	}
	switch ours, err := isOwnSource(given); {
	case err != nil:
		return nil, cli.Fail(cli.ExitUsage, fmt.Errorf("--sdk: %w", err))
	case !ours:
		return nil, cli.Usage("--sdk %s: that is not the source of %s", given, ownModule)
	}
	return os.DirFS(given), nil
}

// isOwnSource reports whether dir has the source of this module.
func isOwnSource(dir string) (bool, error) {
	text, err := regular.Read(filepath.Join(dir, "go.mod"), 1<<20)
	return bytes.HasPrefix(text, []byte("module "+ownModule+"\n")), err
}

// builtFrom is the checkout that this program was built from, "" if it is not there. A program that was built with
// -trimpath does not know it.
func builtFrom() string {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "../../..") // of cmd/internal/author
	if !filepath.IsAbs(dir) {
		return ""
	}
	if ours, err := isOwnSource(dir); err != nil || !ours {
		return ""
	}
	return dir
}

// cachedSource is where Go keeps the source of this very version, if it does.
func cachedSource() (string, error) {
	v := cli.Version()
	if !strings.HasPrefix(v, "v") {
		return "", errors.New("this program is no released version")
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(cache)), filepath.FromSlash(ownModule)+"@"+v)
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return dir, nil
}
