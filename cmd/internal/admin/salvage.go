package admin

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/store"
)

func storeSalvage() *cobra.Command {
	var t target
	var out cli.Output
	var to string
	cmd := &cobra.Command{
		Use:   "salvage --out NEWDIR",
		Short: "Copy what can be read of a damaged log, and say what cannot",
		Long: "Copy what can be read of the log of a stopped server to a new directory. Nothing in the data directory is\n" +
			"changed, and neither its database nor its secrets are needed. NEWDIR has the records, one a line, in a file for\n" +
			"each range without a gap; copies of the damaged segments; and report.json, which names each damaged file and\n" +
			"each range of records that is lost.\n\n" +
			"It makes no data directory: to go on, restore a backup, and give it these records (yett restore --newer FILE).\n" +
			"Checksums say which records can be read. Nothing proves that they are those that were signed.\n\n" +
			"Exit code 0: nothing is lost. 3: something is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage("--out NEWDIR is required")
			}
			dir, err := t.dir()
			if err != nil {
				return err
			}
			if err := notRunning(cmd, dir); err != nil {
				return err
			}
			found, err := store.Salvage(store.Settings{Dir: dir, Now: time.Now}, to)
			if err != nil {
				return err
			}
			w := cmd.ErrOrStderr()
			for _, d := range found.Damaged {
				lossLine(w, "damaged", d)
			}
			for _, l := range found.Lost {
				lossLine(w, "lost", l)
			}
			err = out.Done(cmd, found, "%s has %s in %s", to, cli.Count(int(found.Records), "record"),
				cli.Count(len(found.Saved), "file"))
			if n := len(found.Lost); err == nil && n > 0 {
				err = cli.Fail(cli.ExitTampered, fmt.Errorf("%s of records cannot be read: see %s/%s",
					cli.Count(n, "range"), to, store.SalvageReport))
			}
			return err
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&to, "out", "", "new directory to write")
	return cmd
}

// notRunning refuses the directory of a running server: its files change while they are read. It asks the server, and
// takes no lock, since that writes to the directory.
func notRunning(cmd *cobra.Command, dir string) error {
	c, err := admin.Dial(dir)
	if errors.Is(err, admin.ErrNoServer) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	var status struct{}
	if err = c.Do(cmd.Context(), "GET", "/status", nil, &status); errors.Is(err, admin.ErrNoServer) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("a server runs on %s: stop it first", dir)
	}
	return err
}

func lossLine(w io.Writer, what string, l store.Loss) {
	where := "records of an unknown range"
	switch {
	case l.LastSeq != 0:
		where = fmt.Sprintf("records %d to %d", l.FirstSeq, l.LastSeq)
	case l.FirstSeq != 0:
		where = fmt.Sprintf("records from %d on", l.FirstSeq)
	}
	if l.File != "" {
		where = l.File + ", " + where
	}
	fmt.Fprintf(w, "%s: %s: %s\n", what, cli.Visible(where), cli.Visible(l.Why))
}
