package admin

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/store"
)

// Store is what an operator does with the data directory of a stopped server.
func Store() *cobra.Command {
	return cli.Group("store", "Check, upgrade or salvage the data directory of a stopped server", storeCheck(),
		storeSalvage(), storeUpgrade())
}

func storeCheck() *cobra.Command {
	var t target
	var out cli.Output
	var renew bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read all of the log and hold it against its checksums and its tree",
		Long: "Read all of the log of a stopped server, and hold it against its checksums and its tree, and the keys,\n" +
			"grants and kills against what the newest commit says of them. The file log/head says how far the log had\n" +
			"come: without it nobody knows whether the end of the log is missing, and the server does not start.\n" +
			"--renew makes the file anew, once all else is in order. Use it only if you know that nothing is missing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := t.dir()
			if err != nil {
				return err
			}
			return openStopped(dir, renew, func(s *store.Store, _ *log.Signer) error {
				found, err := s.CheckLog()
				if err == nil && renew {
					err = s.RenewHead()
				}
				if err != nil {
					return err
				}
				return out.Done(cmd, found, "intact: %s in %s and the write-ahead log, records %d to %d, root %s",
					cli.Count(int(found.Records), "record"), cli.Count(found.Segments, "segment"), found.FromSeq, found.ToSeq,
					found.Root)
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().BoolVar(&renew, "renew", false, "make log/head anew: whatever the log has now is all of it")
	return cmd
}

func storeUpgrade() *cobra.Command {
	var t target
	var out cli.Output
	var yes bool
	cmd := &cobra.Command{
		Use:   "upgrade --yes",
		Short: "Move a data directory to the layout of this version",
		Long: "Move the data directory of a stopped server to the layout of this version. There is no way back: an older\n" +
			"version cannot open it afterwards. Copy the directory first. The command builds the new log beside the old one,\n" +
			"compares the roots of their trees, and changes the store in one write. If it is broken off, run it again.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			dir, err := t.dir()
			if err != nil {
				return err
			}
			set, lock, err := stopped(dir)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, lock.Release()) }()
			is, want, err := store.Layout(set)
			if err != nil {
				return err
			}
			if is == want {
				return out.Done(cmd, store.Upgraded{From: is, To: want}, "%s has layout %s already", dir, want)
			}
			if !yes {
				return cli.Usage("%s has layout %s. After the upgrade to layout %s no older version can open it: copy it, and say "+
					"--yes", dir, is, want)
			}
			done, err := store.Upgrade(set)
			if err != nil {
				return err
			}
			return out.Done(cmd, done, "%s has layout %s now: records %d to %d, root %s", dir, done.To, done.FromSeq, done.ToSeq,
				done.Root)
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "there is a copy of the data directory")
	return cmd
}
