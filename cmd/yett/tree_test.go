package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// printsNoData are the commands that print nothing that a script could want: they hold others, run until they are
// stopped, or are started by other commands. yett scan has reports, and --format for them: one of these is SARIF.
var printsNoData = map[string]bool{"yett": true, "yett serve": true, "yett hook": true, "yett exec": true,
	"yett scan": true, "yett mcp": true}

// Every command that prints data takes -o with all its formats, and refuses what is none before it does anything.
func TestEveryCommandTakesOutput(t *testing.T) {
	seen := 0
	cli.Each(newRoot(), func(c *cobra.Command) {
		path := c.CommandPath()
		if printsNoData[path] || c.Hidden || c.HasSubCommands() && !c.Flags().HasFlags() {
			return
		}
		seen++
		flag := c.Flags().Lookup("output")
		if flag == nil || flag.Shorthand != "o" {
			t.Errorf("%s has no -o: bind an output", path)
			return
		}
		for _, format := range cli.OutputFormats {
			if !strings.Contains(flag.Usage, format) {
				t.Errorf("%s: -o does not name %s: %s", path, format, flag.Usage)
			}
		}
		if flag.DefValue != "table" {
			t.Errorf("%s: -o is %s by default, want table", path, flag.DefValue)
		}
		if err := flag.Value.Set("xml"); err != nil {
			t.Fatal(err)
		}
		if err := c.RunE(c, []string{"a", "b"}); err == nil || cli.CodeFor(err) != cli.ExitUsage ||
			!strings.Contains(err.Error(), "-o xml") {
			t.Errorf("%s -o xml: %v, want a usage error", path, err)
		}
	})
	if seen < 40 {
		t.Errorf("only %d commands were looked at", seen)
	}
}

var durationFlags = regexp.MustCompile(`--(\S+) duration`)

// Every flag of a time takes what the configuration takes for one.
func TestEveryDurationFlagTakesDays(t *testing.T) {
	seen := 0
	cli.Each(newRoot(), func(c *cobra.Command) {
		for _, m := range durationFlags.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
			name := m[1]
			flag := c.Flags().Lookup(name)
			seen++
			for given, want := range map[string]string{"30d": "30d", "1d12h": "1d12h", "90s": "1m30s", "1.5h": "1h30m"} {
				if err := flag.Value.Set(given); err != nil || flag.Value.String() != want {
					t.Errorf("%s --%s %s: %s, %v", c.CommandPath(), name, given, flag.Value, err)
				}
			}
			for _, bad := range []string{"", "30", "d", "1x", "--1h", "-+1h"} {
				if err := flag.Value.Set(bad); err == nil || !strings.Contains(err.Error(), "30d") {
					t.Errorf("%s --%s %q: %v, want an error with an example", c.CommandPath(), name, bad, err)
				}
			}
		}
	})
	if seen < 6 {
		t.Errorf("only %d flags were looked at", seen)
	}
}
