package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/store"
)

// Backup makes and checks backups.
func Backup() *cobra.Command {
	var t target
	var out cli.Output
	var to string
	cmd := &cobra.Command{
		Use:   "backup --out DIR|FILE.tar",
		Short: "Copy the store of a server, running or stopped",
		Long: "Copy the store to a new directory, or to a tar archive, server stopped or running. Calls are answered\n" +
			"meanwhile. The copy is of one moment: every record up to one seq, and the keys, grants, kills and waiting calls\n" +
			"as they were then. Its file backup.json is written last: without it a copy was broken off.\n\n" +
			"The files pepper and audit.key of the data directory, the configuration, and the secrets that it names are not\n" +
			"in a backup. Keep pepper, and the public key (yett audit key), in another safe place: without pepper a backup\n" +
			"cannot be restored. audit.key is never needed again: a restored log has a new one.\n\n" +
			"A backup is no data directory to start on: use yett restore.",
		Example: "  yett backup --data /var/lib/yett --out /backup/yett-monday\n" +
			"  yett backup check /backup/yett-monday --key audit.pub --pepper /safe/pepper",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage("--out DIR or --out FILE.tar is required")
			}
			dir, err := t.dir()
			if err != nil {
				return err
			}
			m, err := backupTo(cmd.Context(), dir, to)
			if err != nil {
				return err
			}
			row := struct {
				Out    string `json:"out"`
				Store  string `json:"store_id"`
				Epoch  uint32 `json:"epoch"`
				Seq    uint64 `json:"seq"`
				Commit uint64 `json:"commit"`
				Root   string `json:"root"`
				Files  int    `json:"files"`
				Bytes  int64  `json:"bytes"`
			}{to, m.StoreID, m.Epoch, m.Seq, m.Commit, m.Root, len(m.Files), bytesOf(m)}
			return out.Done(cmd, row, "%s has store %s, epoch %d, with its records up to %d: %s, %s", to, m.StoreID, m.Epoch,
				m.Seq, cli.Count(row.Files, "file"), cli.Count(int(row.Bytes), "byte"))
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	cmd.Flags().StringVar(&to, "out", "", "new directory, or file that ends with .tar, to write")
	cmd.AddCommand(backupCheck())
	return cmd
}

func bytesOf(m *store.Manifest) (n int64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

func backupCheck() *cobra.Command {
	var out cli.Output
	var v verify
	var pepper string
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Read all of a backup and hold it against its digests, its tree and its state",
		Long: "Read all of a backup and change nothing: the digest of each file, the signed checkpoint, every record and\n" +
			"hash, and that the state is that of the last record. --pepper FILE (the store's) also holds keys, grants, kills\n" +
			"and waiting calls against their sum, which nobody can make without it. Unpack a tar archive first.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := v.trusted()
			if err != nil {
				return err
			}
			set := store.BackupSettings{Dir: args[0], Keys: keys}
			if pepper != "" {
				if set.Secret, err = given(pepper); err != nil {
					return err
				}
			}
			found, err := store.CheckBackup(set)
			if err != nil {
				return err
			}
			if !found.KeyPinned {
				fmt.Fprintln(cmd.ErrOrStderr(), "key not pinned: it was taken from the backup itself; give --key")
			}
			if !found.StateHeld {
				fmt.Fprintln(cmd.ErrOrStderr(), "state not held against its sum: give --pepper")
			}
			m := found.Manifest
			return out.Done(cmd, found, "intact: store %s, epoch %d, records up to %d, root %s; %s, %s", m.StoreID, m.Epoch,
				m.Seq, m.Root, cli.Count(len(m.Files), "file"), cli.Count(int(found.Bytes), "byte"))
		},
	}
	out.Bind(cmd)
	cmd.Flags().StringArrayVar(&v.keys, "key", nil, "the public key of the log, or a file with it (see yett audit key)")
	cmd.Flags().StringVar(&pepper, "pepper", "", "the store's file pepper")
	return cmd
}

// given reads a pepper that somebody names. It never makes one.
func given(path string) ([]byte, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("--pepper: %w", err)
	}
	secret, err := datadir.Secret(path, 32)
	if err != nil {
		err = fmt.Errorf("--pepper: %w", err)
	}
	return secret, err
}

// backupTo writes a backup of the store in dir, and holds what arrives against its manifest.
func backupTo(ctx context.Context, dir, to string) (m *store.Manifest, err error) {
	if strings.HasSuffix(to, ".tar") {
		err = writeFile(to, nil, func(w io.Writer) error {
			m, err = through(ctx, dir, w, func(string, int64, io.Reader) error { return nil })
			return err
		})
		return m, err
	}
	d, err := newBackupDir(to)
	if err != nil {
		return nil, err
	}
	m, err = through(ctx, dir, io.Discard, d.put)
	if err == nil {
		err = d.done()
	}
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return m, nil
}

// through has the archive go by: to w as it is, to put file by file.
func through(ctx context.Context, dir string, w io.Writer, put store.BackupOut) (*store.Manifest, error) {
	r, fetched := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := fetchBackup(ctx, dir, io.MultiWriter(w, fetched))
		done <- errors.Join(err, fetched.CloseWithError(err))
	}()
	m, err := unpack(r, put)
	r.CloseWithError(io.ErrClosedPipe)
	if fetchErr := <-done; fetchErr != nil && !errors.Is(fetchErr, io.ErrClosedPipe) {
		return nil, fetchErr
	}
	return m, err
}

// fetchBackup asks the running server, or opens the store itself when none runs.
func fetchBackup(ctx context.Context, dir string, w io.Writer) error {
	c, err := admin.Dial(dir)
	if err == nil {
		defer c.Close()
		err = c.Stream(ctx, "/backup", w)
	}
	if !errors.Is(err, admin.ErrNoServer) {
		return err
	}
	return offline(dir, func(s *store.Store, signer *log.Signer) error {
		out, end := admin.TarOut(w)
		_, err := s.Backup(signer, out)
		if err == nil {
			err = end()
		}
		return err
	})
}

// unpack reads an archive, and fails unless it is a whole backup.
func unpack(r io.Reader, put store.BackupOut) (m *store.Manifest, err error) {
	got := map[string]store.BackupFile{}
	err = admin.ReadTar(r, func(name string, size int64, data io.Reader) error {
		switch {
		case m != nil:
			return fmt.Errorf("the archive goes on with %q behind %s", name, store.ManifestName)
		case name == store.ManifestName:
			m, err = unpackManifest(size, data, put)
			return err
		case !store.InBackup(name) || got[name].Name != "":
			return fmt.Errorf("the archive: %q is no file of a backup, or is there twice", name)
		}
		sum := sha256.New()
		hashed := io.TeeReader(data, sum)
		err := put(name, size, hashed)
		if err == nil {
			_, err = io.Copy(io.Discard, hashed)
		}
		got[name] = store.BackupFile{Name: name, Bytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, fmt.Errorf("the archive has no %s: it was broken off, or is no backup", store.ManifestName)
	}
	return m, whole(m, got)
}

func unpackManifest(size int64, in io.Reader, put store.BackupOut) (*store.Manifest, error) {
	if size > store.MaxManifest {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", store.ManifestName, size, store.MaxManifest)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	m, err := store.ParseManifest(data)
	if err != nil {
		return nil, err
	}
	return m, put(store.ManifestName, int64(len(data)), bytes.NewReader(data))
}

// whole holds what has arrived against the manifest.
func whole(m *store.Manifest, got map[string]store.BackupFile) error {
	for _, f := range m.Files {
		if got[f.Name] != f {
			return fmt.Errorf("%s is missing, or has arrived with other bytes than the manifest says", f.Name)
		}
	}
	if len(got) != len(m.Files) {
		return fmt.Errorf("%d files have arrived, the manifest names %d", len(got), len(m.Files))
	}
	return nil
}

// backupDir is a new directory that a backup is written to. Its manifest gets its name when all else is on disk.
type backupDir struct {
	path  string
	dirs  []string
	owned bool // it was not there
}

func newBackupDir(path string) (*backupDir, error) {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		names, err := os.ReadDir(path)
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("%s is there, and not empty: give a new directory", path)
		}
		return &backupDir{path: path}, err
	}
	return &backupDir{path: path, owned: true}, err
}

const partly = store.ManifestName + ".tmp"

func (d *backupDir) put(name string, _ int64, data io.Reader) error {
	if name == store.ManifestName {
		name = partly
	}
	path := filepath.Join(d.path, name)
	for dir := filepath.Dir(path); len(dir) > len(d.path); dir = filepath.Dir(dir) {
		err := os.MkdirAll(dir, 0o700)
		if err != nil {
			return err
		}
		d.dirs = append(d.dirs, dir)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	return errors.Join(err, f.Sync(), f.Close())
}

// done makes a backup of it.
func (d *backupDir) done() error {
	synced := map[string]bool{}
	for _, dir := range append(d.dirs, d.path) {
		if synced[dir] {
			continue
		}
		synced[dir] = true
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(d.path, partly), filepath.Join(d.path, store.ManifestName)); err != nil {
		return err
	}
	return errors.Join(syncDir(d.path), syncDir(filepath.Dir(filepath.Clean(d.path))))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// remove takes away what was written, and nothing else.
func (d *backupDir) remove() error {
	if d.owned {
		return os.RemoveAll(d.path)
	}
	var errs []error
	for _, name := range []string{partly, store.ManifestName, "db", "log"} {
		errs = append(errs, os.RemoveAll(filepath.Join(d.path, name)))
	}
	return errors.Join(errs...)
}
