package author

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/scanners"
)

// Plugins are the subcommands of `yett plugin` for who writes a plugin or puts one into a configuration.
func Plugins() []*cobra.Command {
	return []*cobra.Command{pluginLock(), pluginScaffold(), pluginConform(), pluginRun(), pluginDebug()}
}

func pluginLock() *cobra.Command {
	var named cli.ConfigFile
	var check bool
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "lock --config FILE",
		Short: "Pin the plugins of a configuration: write their digests and signers to plugins.lock beside it",
		Long: "Read the file of every wasm module and of every plugin with exec, verify the signature beside it " +
			"(FILE.minisig) with the\n" +
			"keys of trust.keys, and write plugins.lock beside the configuration. A server then runs those bytes and no " +
			"others. Nothing\n" +
			"is run here, and the configuration stays as it is. A digest that stands in it must hold too; it may be left " +
			"out. After each\n" +
			"build of a plugin it is to be done again. --check writes nothing: exit 1 when the lock is not what it would write.",
		Example: "  yett plugin lock --config yett.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := named.Required(args, "plugin lock", "--config FILE")
			if err != nil {
				return err
			}
			cfg, err := config.Load(config.Sources{File: file, Env: os.Environ(), Builtins: scanners.Names(), Unlocked: true})
			if err != nil {
				return err
			}
			lock, err := loaded.LockModules(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return writeLock(cmd, &out, file, lock, check)
		},
	}
	out.Bind(cmd)
	named.Bind(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; exit 1 when the lock is not up to date")
	return cmd
}

const maxLockFile = 1 << 20 // bytes, as of the configuration

func writeLock(cmd *cobra.Command, out *cli.Output, file string, lock config.Lock, check bool) error {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, config.LockName)
	text := lock.Encode(dir)
	before, err := regular.Read(path, maxLockFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	changed := lockChanges(before, lock)
	switch {
	case err == nil && bytes.Equal(before, text):
		return out.Done(cmd, written{path, len(lock.Plugins), false}, "%s is up to date (%s)", path, files(len(lock.Plugins)))
	case check:
		for _, line := range changed {
			cmd.PrintErrln(line)
		}
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s is not up to date; run yett plugin lock --config %s", path, file))
	}
	for _, line := range changed {
		cmd.PrintErrln(line)
	}
	if err := replaceFile(path, text); err != nil {
		return err
	}
	return out.Done(cmd, written{path, len(lock.Plugins), true}, "%s pins %s", path, files(len(lock.Plugins)))
}

// lockChanges says what an operator should know of, beside other bytes, which are what an author does: files that
// somebody else has signed, or nobody any more, since the lock before, and plugins that are not pinned any more. A lock
// is of one configuration, so another one in the same directory would be refused without them.
func lockChanges(before []byte, lock config.Lock) (lines []string) {
	old, err := config.ReadLock(before)
	if err != nil {
		return []string{"warning: the lock before cannot be read, so nobody can tell whether a signer has changed"}
	}
	names := slices.Sorted(maps.Keys(lock.Plugins))
	for _, name := range names {
		was, there := old.Plugins[name]
		is := lock.Plugins[name].Signer
		switch {
		case !there || was.Signer == is:
		case is == "":
			lines = append(lines, fmt.Sprintf("warning: plugins.%s: was signed by %s, and nobody has signed it now",
				cli.Visible(name), cli.Visible(was.Signer)))
		case was.Signer == "":
			lines = append(lines, fmt.Sprintf("plugins.%s: is signed by %s now, and was signed by nobody", cli.Visible(name),
				cli.Visible(is)))
		default:
			lines = append(lines, fmt.Sprintf("warning: plugins.%s: was signed by %s, and is signed by %s now",
				cli.Visible(name), cli.Visible(was.Signer), cli.Visible(is)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Plugins)) {
		if _, there := lock.Plugins[name]; !there {
			lines = append(lines, fmt.Sprintf("warning: plugins.%s: is not pinned any more: this configuration has no file "+
				"under that name", cli.Visible(name)))
		}
	}
	return lines
}

// written is what a command prints that keeps a file up to date.
type written struct {
	File    string `json:"file"`
	Pins    int    `json:"pins"`
	Changed bool   `json:"changed"`
}

// files counts what a lock pins: modules and programs.
func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// replaceFile writes a file beside path and renames it: a reader sees the old text or the new one.
func replaceFile(path string, text []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, werr := tmp.Write(text)
	if err := errors.Join(werr, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
