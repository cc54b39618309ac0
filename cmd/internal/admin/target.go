package admin

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
)

// target is how an administrative command finds the running server.
type target struct{ data, config string }

func (t *target) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.data, "data", "", "data directory of the running server")
	cmd.Flags().StringVar(&t.config, "config", "", "configuration file that names it (storage.path)")
}

func (t *target) dir() (string, error) {
	switch {
	case t.data != "" && t.config != "":
		return "", cli.Usage("give --data or --config, not both")
	case t.data != "":
		return t.data, nil
	case t.config == "":
		return "", cli.Usage("--data DIR or --config FILE is required")
	}
	cfg, err := cli.LoadConfig(t.config, nil, true)
	if err != nil {
		return "", err
	}
	return string(cfg.Storage.Path), nil
}

// post asks the running server to do something to what is named: /what/NAME/verb.
func (t *target) post(ctx context.Context, what, name, verb string, in, out any) error {
	return t.with(func(c *admin.Client) error {
		return c.Do(ctx, "POST", "/"+what+"/"+url.PathEscape(name)+"/"+verb, in, out)
	})
}

// with runs fn with a client of the running server.
func (t *target) with(fn func(c *admin.Client) error) error {
	dir, err := t.dir()
	if err != nil {
		return err
	}
	c, err := admin.Dial(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}
