package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/config"
)

// durationFlag is a flag that takes what the configuration takes for a duration, such as 30d, and what Go's own does.
type durationFlag time.Duration

func DurationVar(cmd *cobra.Command, to *time.Duration, name string, standard time.Duration, about string) {
	*to = standard
	cmd.Flags().Var((*durationFlag)(to), name, about)
}

// String is what --help shows as the default: nothing for none.
func (d *durationFlag) String() string {
	if *d == 0 {
		return "0s" // pflag takes it for no default
	}
	return config.Duration(*d).String()
}

// Type is the placeholder in --help.
func (d *durationFlag) Type() string { return "duration" }

// Set reads a duration. A negative one is read too: the command says why it does not want it.
func (d *durationFlag) Set(s string) error {
	text, negative := strings.CutPrefix(s, "-")
	v, err := config.ParseDuration(text)
	if err != nil {
		std, stdErr := time.ParseDuration(text) // 1.5h, 0
		if stdErr != nil || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
			return err
		}
		v = config.Duration(std)
	}
	if negative {
		v = -v
	}
	*d = durationFlag(v)
	return nil
}
