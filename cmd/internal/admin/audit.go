package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
)

func Audit() *cobra.Command {
	return cli.Group("audit", "Read the audit log", auditArchive(), auditExport(), auditKey(), auditProve(),
		auditTail(), auditVerify())
}

// writeFile writes to a new file that takes path's place only when it is whole, or to stdout.
func writeFile(path string, stdout io.Writer, fn func(io.Writer) error) error {
	if path == "-" {
		return fn(stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".yett-*")
	var file *os.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("--out %s: cannot write to its directory: %w", path, file.Err)
	}
	if err != nil {
		return err
	}
	err = errors.Join(fn(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// stopped locks the data directory of a stopped server, and gives how to open its store. It makes nothing there.
func stopped(dir string) (set store.Settings, lock *datadir.Lock, err error) {
	for _, name := range []string{"db", "audit.key", "pepper"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return set, nil, fmt.Errorf("there is no whole store in %s: %w", dir, err)
		}
	}
	if lock, err = datadir.Acquire(dir); err != nil {
		return set, nil, err
	}
	boot, _ := supervise.Uptime()
	set = store.Settings{Dir: dir, Now: time.Now, Boot: boot, Uptime: supervise.Up, NewID: func() string { return "" },
		Log: func(string, ...any) {}}
	if set.Secret, err = datadir.Secret(filepath.Join(dir, "pepper"), 32); err != nil {
		return set, nil, errors.Join(err, lock.Release())
	}
	return set, lock, nil
}

// offline opens the store of a stopped server. It never makes one.
func offline(dir string, fn func(*store.Store, *log.Signer) error) error {
	return openStopped(dir, false, fn)
}

func openStopped(dir string, renew bool, fn func(*store.Store, *log.Signer) error) (err error) {
	set, lock, err := stopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	set.Renew = renew
	s, err := store.Open(set)
	if err != nil {
		return err
	}
	signer, err := log.LoadSigner(filepath.Join(dir, "audit.key"), s.ID())
	if err == nil {
		err = fn(s, signer)
	}
	return errors.Join(err, s.Close())
}

func auditKey() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{Use: "key", Short: "Print the public key that checkpoints are signed with", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := t.dir()
			if err != nil {
				return err
			}
			key, err := publicKey(cmd.Context(), dir)
			if err != nil {
				return err
			}
			row := struct {
				Key string `json:"key"`
			}{key}
			return out.PrintOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, key)
				return err
			})
		}}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}

func publicKey(ctx context.Context, dir string) (key string, err error) {
	c, err := admin.Dial(dir)
	if err == nil {
		defer c.Close()
		var out struct{ Key string }
		err = c.Do(ctx, "GET", "/audit/key", nil, &out)
		key = out.Key
	}
	if !errors.Is(err, admin.ErrNoServer) {
		return key, err
	}
	err = offline(dir, func(_ *store.Store, signer *log.Signer) error {
		key = signer.PublicKey()
		return nil
	})
	return key, err
}
