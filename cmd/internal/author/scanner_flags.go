package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
)

// authorFlags are what all commands that take [DIR|FILE.wasm] have in common.
type authorFlags struct {
	config  string
	vectors []string
	logs    bool
	fuel    fuelFlag
	out     cli.Output
}

const configHelp = "settings of the module: a JSON object, or a file that holds one in JSON or YAML"

func (f *authorFlags) bind(cmd *cobra.Command) {
	cmd.Args = cobra.MaximumNArgs(1)
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", configHelp+" (default: config of the vectors)")
	fs.StringArrayVar(&f.vectors, "vectors", nil,
		"file of vectors; may be given more than once (default: testdata/*.yaml beside the module)")
	fs.BoolVar(&f.logs, "log", false, "print what the module logs on stderr")
	f.fuel.bind(cmd)
	f.out.Bind(cmd)
}

// authorInput is what the commands that take [DIR|FILE.wasm] work on: a project, which is built, or a module.
type authorInput struct {
	settings kit.Settings
	module   kit.Module
	dir      string // where the project or the file is
	unread   error  // why the file cannot be read as a module; nil if it can
	vectors  []*kit.Vectors
	config   json.RawMessage // nil: none is given
}

// read checks the flags, reads or builds what is to be worked on, and reads its vectors and settings. With given, only
// settings that were given count: vectors have their own.
func (f *authorFlags) read(cmd *cobra.Command, args []string) (in authorInput, err error) {
	if err := f.out.Check(); err != nil {
		return in, err
	}
	in.settings = authorSettings(cmd, f.logs)
	if err := f.fuel.put(cmd, &in.settings); err != nil {
		return in, err
	}
	if f.config != "" {
		if in.config, err = kit.ReadSettings(cmd.Context(), f.config); err != nil {
			return in, cli.Fail(cli.ExitUsage, fmt.Errorf("--config: %w", err))
		}
	}
	path := "."
	if len(args) > 0 {
		path = args[0]
	}
	dir, err := projectOf(path)
	if err != nil {
		return in, err
	}
	if in.dir = dir; dir == "" {
		in.dir = filepath.Dir(path)
	}
	if in.vectors, err = readVectors(in.dir, f.vectors); err != nil { // before a build: it is quick
		return in, err
	}
	kit.WithSettings(in.vectors, in.config)
	if dir == "" {
		in.module, in.unread = kit.ReadModule(path)
		return in, nil
	}
	if in.module, err = kit.Build(cmd.Context(), dir); err != nil {
		return in, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "built %s, %d bytes\n", filepath.Join(dir, filepath.Base(in.module.Path)),
		len(in.module.Code))
	return in, nil
}

// choose settles on one configuration for the commands that work with one: what was given, or the vectors' with a word
// about it.
func (in *authorInput) choose(cmd *cobra.Command) {
	if in.config != nil {
		return
	}
	place := ""
	if in.config, place = kit.SettingsOf(in.vectors); in.config != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "settings: %s\n", cli.Visible(place))
	}
}

// projectOf gives the folder of a project, "" for a file. What is not there, or is no project, is a mistake.
func projectOf(path string) (dir string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", cli.Fail(cli.ExitUsage, err)
	}
	if !info.IsDir() {
		return "", nil
	}
	if _, err := kit.LanguageOf(path); err != nil {
		return "", cli.Fail(cli.ExitUsage, err)
	}
	return path, nil
}

// readVectors reads the files that were named, or those of the project in dir.
func readVectors(dir string, named []string) ([]*kit.Vectors, error) {
	files := named
	if len(files) == 0 {
		var err error
		if files, err = kit.FindVectors(dir); err != nil {
			return nil, err
		}
	}
	var out []*kit.Vectors
	var errs []error
	for _, f := range files {
		v, err := kit.ReadVectors(f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, v)
	}
	if len(errs) > 0 {
		return nil, cli.Fail(cli.ExitUsage, errors.Join(errs...))
	}
	return out, nil
}

// authorSettings are the surroundings in which an author's module runs: those of the gateway.
func authorSettings(cmd *cobra.Command, logs bool) kit.Settings {
	s := kit.Settings{CheckConfig: config.CheckModule}
	s.CacheDir = cli.ModuleCache()
	if logs {
		s.Log = func(level int, line string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "log %d: %s\n", level, kit.Printable(strings.TrimRight(line, "\n"), 2<<10))
		}
	}
	return s
}

// fuelFlag is --fuel: the budget of one call, units, as limits.fuel of a plugin; 0 for the gateway's default.
type fuelFlag uint64

// Bounds of limits.fuel.
const (
	minFuel = 10_000
	maxFuel = 1_000_000_000_000
)

func (f *fuelFlag) bind(cmd *cobra.Command) {
	cmd.Flags().Uint64Var((*uint64)(f), "fuel", 0,
		fmt.Sprintf("units of work that one call may do, as limits.fuel of a plugin (default %d, which is a gateway's for "+
			"its limits.timeout of 50ms)", uint64(kit.DefaultFuel)))
}

// put checks the flag and sets it.
func (f fuelFlag) put(cmd *cobra.Command, s *kit.Settings) error {
	if cmd.Flags().Changed("fuel") && (f < minFuel || f > maxFuel) {
		return cli.Usage("--fuel %d: want %d to %d units", uint64(f), minFuel, maxFuel)
	}
	s.Fuel = uint64(f)
	return nil
}

// objectFlag reads a flag that is a JSON object; nil when it is not given.
func objectFlag(name, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, cli.Usage("%s: want a JSON object", name)
	}
	return json.RawMessage(text), nil
}

// writeWhole replaces a file in one step, so that no half of one is ever there.
func writeWhole(ctx context.Context, path string, data []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
