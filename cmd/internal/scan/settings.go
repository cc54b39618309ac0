package scan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/scanners"
)

// choose gives the scanners of a run with their settings: those that are named, or all that are built in.
func (o *options) choose(ctx context.Context) ([]chosen, error) {
	var all []chosen
	names := o.scanners
	if len(names) == 0 && len(o.wasm) == 0 {
		names = scanners.Names()
	}
	for _, name := range names {
		s, err := builtin(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	for _, path := range o.wasm {
		m, err := kit.ReadModule(path)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, fmt.Errorf("--wasm: %w", err))
		}
		all = append(all, chosen{module: m, foreign: true})
	}
	byName := map[string]*chosen{}
	for i := range all {
		name := all[i].module.Name
		if byName[name] != nil {
			return nil, cli.Usage("two scanners are named %s: choose one, or rename the file", name)
		}
		byName[name] = &all[i]
	}
	if err := o.configure(ctx, byName); err != nil {
		return nil, err
	}
	return all, o.set(byName)
}

// scannerOf splits what a flag says of one scanner's settings: NAME=… of --config. With one scanner there is no need of
// the name.
func scannerOf(flag, given string, byName map[string]*chosen) (*chosen, string, error) {
	name, rest, named := strings.Cut(given, "=")
	if s := byName[name]; named && s != nil {
		return s, rest, nil
	}
	if len(byName) == 1 {
		for _, s := range byName {
			return s, given, nil
		}
	}
	return nil, "", cli.Usage("--%s %s: begin with the name of a scanner that runs, such as %s=…", flag,
		kit.Printable(given, 60), scanners.Names()[0])
}

func (o *options) configure(ctx context.Context, byName map[string]*chosen) error {
	for _, given := range o.configs {
		s, from, err := scannerOf("config", given, byName)
		if err != nil {
			return err
		}
		if s.config != nil {
			return cli.Usage("--config: scanner %s has settings already: give them once", s.module.Name)
		}
		if s.config, err = kit.ReadSettings(ctx, from); err != nil {
			return cli.Fail(cli.ExitUsage, fmt.Errorf("--config: %w", err))
		}
	}
	return nil
}

// set puts single settings on top: NAME.KEY=VALUE, where VALUE is JSON, or else a text.
func (o *options) set(byName map[string]*chosen) error {
	for _, given := range o.sets {
		path, text, is := strings.Cut(given, "=")
		name, key, dotted := strings.Cut(path, ".")
		s := byName[name]
		if !is || !dotted || key == "" || s == nil {
			return cli.Usage("--set %s: expected NAME.KEY=VALUE, where NAME is a scanner that runs",
				kit.Printable(given, 60))
		}
		value := json.RawMessage(text)
		if !json.Valid(value) {
			value, _ = json.Marshal(text) // a text always has a form in JSON
		}
		settings := map[string]json.RawMessage{}
		if s.config != nil {
			if err := json.Unmarshal(s.config, &settings); err != nil {
				return cli.Fail(cli.ExitUsage, fmt.Errorf("--set %s: %w", path, err))
			}
		}
		settings[key] = value
		merged, err := json.Marshal(settings)
		if err != nil {
			return cli.Fail(cli.ExitUsage, fmt.Errorf("--set %s: %w", path, err))
		}
		s.config = merged
	}
	return nil
}
