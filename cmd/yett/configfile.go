package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/scanners"
)

// configFile is a configuration file that is named by --config or by an argument of its own.
type configFile struct{ flag string }

func (f *configFile) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.flag, "config", "", "configuration file; may also be given without the flag")
}

// of gives the file's name; "" when neither way was used.
func (f *configFile) of(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return f.flag, nil
	case f.flag != "" && f.flag != args[0]:
		return "", usage("two configuration files: %s and --config %s; give one", args[0], f.flag)
	}
	return args[0], nil
}

// loadConfig reads a configuration file (or none) with flags on top; empty flags count as not given.
func loadConfig(file string, flags map[string]string, serve bool) (*config.Config, error) {
	set := map[string]any{}
	for k, v := range flags {
		if v != "" {
			set[k] = v
		}
	}
	return config.Load(config.Sources{File: file, Env: os.Environ(), Flags: set, Builtins: scanners.Names(), Serve: serve})
}
