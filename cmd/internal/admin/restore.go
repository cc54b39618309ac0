package admin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
)

// restore is what yett restore is told.
type restore struct {
	from, data, pepper, newer string
	apply                     bool
	v                         verify // the keys
	out                       cli.Output
}

// Restore makes a data directory of a backup.
func Restore() *cobra.Command {
	var r restore
	cmd := &cobra.Command{
		Use:   "restore --from BACKUP --data NEWDIR",
		Short: "Make a new data directory of a backup",
		Long: "Make a new data directory of a backup (a directory or a tar archive). The records stay as they are. The\n" +
			"log goes on under a new store id, with a new signing key and the next epoch, behind a record of type restored\n" +
			"that holds the last checkpoint of the old one: nobody can take the new log for the old one.\n\n" +
			"The pepper of the old store is needed: --pepper FILE, or put it in NEWDIR before.\n\n" +
			"What was revoked since the backup is live in it again. Give the newer log if there is one: --newer EXPORT (yett\n" +
			"audit export), the old data directory, or the directory that yett store salvage has made. Keys that were\n" +
			"revoked, kills that were set, grants that were revoked, calls that were denied, and approvals that were spent\n" +
			"since are listed, and taken away again before the first start. --apply-revocations=false only lists them, each\n" +
			"with the command that does it. The newer log must go on where the backup ends. Only what was salvaged may have\n" +
			"gaps: they are named.\n\n" +
			"Sign-ins to the console end. If the command is broken off, no server starts on NEWDIR: run it again.",
		Example: "  yett restore --from /backup/yett-monday --data /var/lib/new --pepper /safe/pepper --key audit.pub\n" +
			"  yett restore --from monday.tar --data new --pepper /safe/pepper --newer /var/lib/yett",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&r.from, "from", "", "the backup: a directory, or a file that ends with .tar")
	f.StringVar(&r.data, "data", "", "the new data directory")
	f.StringVar(&r.pepper, "pepper", "", "the old store's file pepper (default: the one that is in NEWDIR)")
	f.StringVar(&r.newer, "newer", "", "an export, the old data directory, or what yett store salvage has made: "+
		"what was taken away since the backup is taken away again")
	f.BoolVar(&r.apply, "apply-revocations", true, "take away again what --newer lists, before the first start")
	f.StringArrayVar(&r.v.keys, "key", nil, "the public key of the old log, or a file with it (see yett audit key)")
	r.out.Bind(cmd)
	return cmd
}

func (r *restore) run(cmd *cobra.Command) (err error) {
	switch {
	case r.from == "":
		return cli.Usage("--from BACKUP is required")
	case r.data == "":
		return cli.Usage("--data NEWDIR is required")
	case cmd.Flags().Changed("apply-revocations") && r.newer == "":
		return cli.Usage("--apply-revocations needs --newer: else nothing is known of the time since the backup")
	}
	keys, err := r.v.trusted()
	if err != nil {
		return err
	}
	if err := datadir.Make(r.data); err != nil {
		return err
	}
	lock, err := datadir.Acquire(r.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	secret, err := r.secret()
	if err != nil {
		return err
	}
	from, forget, err := r.unpacked(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget()) }()
	done, err := r.make(cmd.Context(), from, secret, keys)
	if err != nil {
		return err
	}
	return r.print(cmd, done)
}

// secret finds the pepper. It makes none: without the old one no key of the backup works.
func (r *restore) secret() ([]byte, error) {
	path := r.pepper
	if path == "" {
		path = filepath.Join(r.data, "pepper")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no API key of the backup works without the old store's file pepper: give --pepper FILE, "+
				"or copy it to %s", path)
		}
	}
	return given(path)
}

// unpacked gives the backup as a directory.
func (r *restore) unpacked(ctx context.Context) (dir string, forget func() error, err error) {
	none := func() error { return nil }
	if st, err := os.Stat(r.from); err != nil || st.IsDir() {
		return r.from, none, err
	}
	if err := store.BeginRestore(nil, r.data); err != nil {
		return "", nil, err
	}
	f, err := regular.Named(ctx, r.from)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	dir = filepath.Join(r.data, "unpacked.tmp")
	forget = func() error { return os.RemoveAll(dir) }
	if err := forget(); err != nil {
		return "", nil, err
	}
	d, err := newBackupDir(dir)
	if err != nil {
		return "", nil, err
	}
	if _, err = unpack(bufio.NewReaderSize(f, 1<<20), d.put); err == nil {
		err = d.done()
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s: %w", r.from, err), forget())
	}
	return dir, forget, nil
}

func (r *restore) make(ctx context.Context, from string, secret []byte, keys log.Keys) (*store.Restored, error) {
	found, err := store.CheckBackup(store.BackupSettings{Dir: from, Secret: secret, Keys: keys})
	if err != nil {
		return nil, err
	}
	boot, _ := supervise.Uptime()
	to := store.Restore{From: from, Keys: keys, Apply: r.apply, By: store.Who{
		Principal: "admin:" + strconv.Itoa(os.Getuid()), Method: "peer_uid", Surface: "admin"}}
	to.Settings = store.Settings{Dir: r.data, Now: time.Now, Boot: boot, Uptime: supervise.Up, NewID: newStoreID,
		Secret: secret, Log: func(string, ...any) {}}
	if r.newer != "" {
		if to.Since, err = since(ctx, r.newer, found.Manifest, keys); err != nil {
			return nil, fmt.Errorf("--newer %s: %w", r.newer, err)
		}
	}
	if err := store.BeginRestore(nil, r.data); err != nil {
		return nil, err
	}
	// Before the store: a crash between must not part them. A key that an earlier try has made belongs to nothing.
	if err := r.secrets(secret); err != nil {
		return nil, err
	}
	return to.Run()
}

func (r *restore) secrets(secret []byte) error {
	key := filepath.Join(r.data, "audit.key")
	if err := os.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := datadir.Secret(key, 32); err != nil {
		return err
	}
	path := filepath.Join(r.data, "pepper")
	if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, secret) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a start in front of this one
		return err
	}
	return datadir.WriteSecret(path, secret)
}

// newStoreID makes an id as the server does.
func newStoreID() string { return "sto_" + rand.Text() }

// since reads what the old store's log says of the time since a backup.
func since(ctx context.Context, path string, m *store.Manifest, keys log.Keys) (*store.Since, error) {
	n := store.NewSince(m)
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, store.SalvageReport)); err == nil {
		return n, salvagedDir(ctx, path, n)
	}
	if st.IsDir() {
		return n, offline(path, func(s *store.Store, _ *log.Signer) error {
			root, err := s.Root(min(m.Seq, s.Seq()))
			switch {
			case err != nil:
				return err
			case s.Seq() < m.Seq:
				return fmt.Errorf("its log ends with record %d, the backup with %d: it is not newer", s.Seq(), m.Seq)
			case (log.Checkpoint{Root: root}).Root.String() != m.Root:
				return fmt.Errorf("its first %d records are not those of the backup", m.Seq)
			}
			return s.Records(m.Seq+1, n.Record)
		})
	}
	f, err := regular.Named(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	if head, _ := in.Peek(len(`{"v":1,`)); string(head) == `{"v":1,` { // no header: records that were salvaged
		n.Salvaged()
		return n, some(n, salvaged(in, n))
	}
	_, err = log.Verify(in, log.VerifyOptions{Keys: keys, Each: n.Record,
		Earlier: []log.Earlier{{From: "of the backup", Text: m.Checkpoint}}})
	return n, err
}

// salvagedDir reads the records that yett store salvage has made files of.
func salvagedDir(ctx context.Context, dir string, n *store.Since) error {
	n.Salvaged()
	path := filepath.Join(dir, store.SalvageReport)
	data, err := regular.Read(path, maxReport)
	if err != nil {
		return err
	}
	var r store.Salvaged
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, one := range r.Saved {
		if !filepath.IsLocal(one.File) {
			return fmt.Errorf("%s names %q, which is not in its directory", path, one.File)
		}
		f, err := regular.Named(ctx, filepath.Join(dir, one.File))
		if err != nil {
			return err
		}
		err = salvaged(bufio.NewReaderSize(f, 1<<20), n)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", one.File, err)
		}
	}
	for _, l := range r.Lost {
		n.Lost(l.LastSeq)
	}
	return some(n, nil)
}

// maxReport bounds a report of yett store salvage, in bytes.
const maxReport = 64 << 20

// some refuses a log that says nothing of the time since the backup.
func some(n *store.Since, err error) error {
	if err == nil && n.Empty() {
		err = errors.New("it has no record behind the backup's: it is not newer")
	}
	return err
}

// salvaged reads records without a header. Nothing proves them: they only take away.
func salvaged(in *bufio.Reader, n *store.Since) error {
	for line := 1; ; line++ {
		rec, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(rec) == 0 {
			return nil
		}
		var r struct{ Seq uint64 }
		if err == nil {
			err = json.Unmarshal(rec, &r)
		}
		if err == nil {
			err = n.Record(r.Seq, rec)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func (r *restore) print(cmd *cobra.Command, done *store.Restored) error {
	err := r.out.Done(cmd, done, "%s has store %s, epoch %d, behind record %d of store %s; its log ends with record %d",
		r.data, done.StoreID, done.Epoch, done.FromSeq, done.FromStoreID, done.Seq)
	if err != nil || !r.out.Table() {
		return err
	}
	w := cmd.ErrOrStderr()
	fmt.Fprintf(w, "its log has a new key: yett audit key --data %s; keep the old one too, for the records up to %d\n",
		r.data, done.FromSeq)
	if r.newer == "" {
		fmt.Fprintln(w, "what was revoked since the backup is live again: give --newer, or revoke it now")
		return nil
	}
	for _, gap := range done.Missing {
		fmt.Fprintf(w, "records %d to %d of the old log are missing: what was revoked in them is live again; revoke it now\n",
			gap.First, gap.Last)
	}
	fmt.Fprintf(w, "taken away since the backup: %s\n", cli.Count(len(done.Since), "thing"))
	for _, x := range done.Since {
		what := "to do: " + x.How + " --data " + r.data
		if x.Applied {
			what = "done again"
			if x.Note != "" {
				what = x.Note
			}
		}
		line := fmt.Sprintf("record %d, %s: %s by %s (%s): %s", x.Seq, x.Time.Format(time.RFC3339), x.What, x.By,
			x.Type, what)
		if _, err := io.WriteString(w, cli.Visible(line)+"\n"); err != nil {
			return err
		}
	}
	return nil
}
