package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/scanners"
)

// ConfigFile is a configuration file that is named by --config or by an argument of its own.
type ConfigFile struct{ Flag string }

func (f *ConfigFile) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Flag, "config", "", "configuration file; may also be given without the flag")
}

// Of gives the file's name; "" when neither way was used.
func (f *ConfigFile) Of(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return f.Flag, nil
	case f.Flag != "" && f.Flag != args[0]:
		return "", Usage("two configuration files: %s and --config %s; give one", args[0], f.Flag)
	}
	return args[0], nil
}

// Required gives the file's name for a command that cannot do without one. how is what to write behind the command.
func (f *ConfigFile) Required(args []string, command, how string) (string, error) {
	file, err := f.Of(args)
	if err == nil && file == "" {
		err = Usage("%s needs a configuration file: yett %s %s", command, command, how)
	}
	return file, err
}

// LoadConfig reads a configuration file (or none) with flags on top; empty flags count as not given.
func LoadConfig(file string, flags map[string]string, serve bool) (*config.Config, error) {
	set := map[string]any{}
	for k, v := range flags {
		if v != "" {
			set[k] = v
		}
	}
	return config.Load(config.Sources{File: file, Env: os.Environ(), Flags: set, Builtins: scanners.Names(), Serve: serve})
}
