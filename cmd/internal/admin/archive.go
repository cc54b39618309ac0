package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/store"
)

// archive is what yett audit archive is told.
type archive struct {
	t   target
	out cli.Output
	to  string
	v   verify // its keys
}

func auditArchive() *cobra.Command {
	var a archive
	cmd := &cobra.Command{
		Use:   "archive --to DIR",
		Short: "Copy the complete files of the log to a directory, each of them verifiable alone",
		Long: "Write an export of each sealed file of the log to a directory, server stopped or running. The newest\n" +
			"records are in no sealed file yet: yett audit export writes them.\n\n" +
			"A file is named by its first and last record. One that is there is verified and not written again, so the\n" +
			"command can be broken off, and run every day. Each file can be verified alone: yett audit verify FILE.\n\n" +
			"Exit code 0: the directory has all of it. 3: a file in the directory was changed or cut, or there are records\n" +
			"that neither the directory nor the log has.",
		Example: "  yett audit archive --data /var/lib/yett --to /mnt/archive",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	a.t.bind(cmd)
	a.out.Bind(cmd)
	cmd.Flags().StringVar(&a.to, "to", "", "directory that gets the files; made if it does not exist")
	cmd.Flags().StringArrayVar(&a.v.keys, "key", nil, "another public key that files in the directory are signed with, "+
		"as before a restore, or a file with it; may be repeated")
	return cmd
}

// sealedLog is a log, of a server or of a stopped store.
type sealedLog interface {
	Sealed() ([]log.Range, error)
	Export(w io.Writer, r log.Range) error
	Key() (string, error)
}

// archived says what an archive has.
type archived struct {
	Written  []string `json:"written"`
	Verified int      `json:"verified"` // files that were there
	From     uint64   `json:"from_seq"`
	To       uint64   `json:"to_seq"`
}

func (a *archive) run(cmd *cobra.Command) error {
	if a.to == "" {
		return cli.Usage("--to DIR is required")
	}
	dir, err := a.t.dir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.to, 0o700); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	done := archived{Written: []string{}}
	err = withLog(cmd.Context(), dir, func(l sealedLog) error { return a.fill(l, &done) })
	if err != nil {
		return err
	}
	if done.To == 0 {
		return a.out.Done(cmd, done, "no file of the log is sealed yet: nothing is archived")
	}
	return a.out.Done(cmd, done, "%s has records %d to %d: %s written, %s verified", a.to, done.From, done.To,
		cli.Count(len(done.Written), "file"), cli.Count(done.Verified, "file"))
}

// fill verifies what is in the directory, and writes what is missing.
func (a *archive) fill(l sealedLog, done *archived) error {
	key, err := l.Key()
	if err != nil {
		return err
	}
	a.v.keys = append(a.v.keys, key)
	keys, err := a.v.trusted()
	if err != nil {
		return err
	}
	has, err := archivedIn(a.to)
	if err != nil {
		return err
	}
	for _, r := range has {
		if err := verifyArchived(filepath.Join(a.to, r.FileName()), r, keys); err != nil {
			return err
		}
	}
	done.Verified = len(has)
	sealed, err := l.Sealed()
	if err != nil {
		return err
	}
	for _, r := range has {
		if len(sealed) > 0 && sealed[0].From <= r.To && r.To <= sealed[len(sealed)-1].To {
			if err := sameRoot(filepath.Join(a.to, r.FileName()), l, r.To); err != nil {
				return err
			}
		}
	}
	for _, r := range sealed {
		if slices.ContainsFunc(has, func(h log.Range) bool { return h.From <= r.From && r.To <= h.To }) {
			continue
		}
		path := filepath.Join(a.to, r.FileName())
		if err := writeFile(path, nil, func(w io.Writer) error { return l.Export(w, r) }); err != nil {
			return fmt.Errorf("archive records %d to %d: %w", r.From, r.To, err)
		}
		if err := verifyArchived(path, r, keys); err != nil {
			return err
		}
		done.Written, has = append(done.Written, r.FileName()), append(has, r)
	}
	return done.whole(a.to, has)
}

// sameRoot refuses a file of another log than the present one: a data directory that was put back to an earlier time,
// and went on, has the same key.
func sameRoot(path string, l sealedLog, seq uint64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	archived, err := rootOf(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var one bytes.Buffer
	if err := l.Export(&one, log.Range{From: seq, To: seq}); err != nil {
		return err
	}
	if is, err := rootOf(&one); err != nil {
		return err
	} else if is != archived {
		return cli.Fail(cli.ExitTampered, fmt.Errorf("%s has other records up to %d than the log has: the data "+
			"directory was put back to an earlier time, or is another one; move the archive away, and find out which is the "+
			"right one", path, seq))
	}
	return nil
}

// rootOf is the signed root of an export, which was verified before.
func rootOf(in io.Reader) (root string, err error) {
	line, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil {
		return root, err
	}
	h, err := log.ParseHeader(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return root, err
	}
	c, err := log.OpenCheckpoint(h.Checkpoint, nil)
	return c.Root.String(), err
}

// whole says whether there are records between those of the files that none of them has.
func (done *archived) whole(dir string, has []log.Range) error {
	if len(has) == 0 {
		return nil
	}
	slices.SortFunc(has, func(a, b log.Range) int { return int(int64(a.From) - int64(b.From)) })
	done.From, done.To = has[0].From, has[0].To
	for _, r := range has[1:] {
		if r.From > done.To+1 {
			return cli.Fail(cli.ExitTampered, fmt.Errorf("records %d to %d are in no file of %s, and the log has them no more: "+
				"look for them in a backup", done.To+1, r.From-1, dir))
		}
		done.To = max(done.To, r.To)
	}
	return nil
}

var archiveFile = regexp.MustCompile(`^yett-([0-9]{20})-([0-9]{20})\.jsonl$`)

// archivedIn lists the files of an archive. Others are left alone.
func archivedIn(dir string) (out []log.Range, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	for _, e := range all {
		parts := archiveFile.FindStringSubmatch(e.Name())
		if parts == nil {
			continue
		}
		from, err := strconv.ParseUint(parts[1], 10, 62)
		to, err2 := strconv.ParseUint(parts[2], 10, 62)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("%s: the name has no number of a record: %w", filepath.Join(dir, e.Name()), err)
		}
		out = append(out, log.Range{From: from, To: to})
	}
	return out, nil
}

// verifyArchived checks one file, and that it has the records that its name says.
func verifyArchived(path string, r log.Range, keys log.Keys) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	found, err := log.Verify(f, log.VerifyOptions{Keys: keys})
	switch {
	case log.IsFault(err):
		return cli.Fail(cli.ExitTampered, fmt.Errorf("%s was changed or cut: %w; move it away, and run the command again",
			path, err))
	case err != nil:
		return fmt.Errorf("%s could not be checked: %w", path, err)
	case found.FromSeq != r.From || found.ToSeq != r.To:
		return cli.Fail(cli.ExitTampered, fmt.Errorf("%s has records %d to %d, its name says others: move it away, and run "+
			"the command again", path, found.FromSeq, found.ToSeq))
	}
	return nil
}

// withLog calls fn with the log of a running server, or of a stopped store.
func withLog(ctx context.Context, dir string, fn func(sealedLog) error) error {
	c, err := admin.Dial(dir)
	if err == nil {
		defer c.Close()
		err = fn(servedLog{ctx, c})
	}
	if !errors.Is(err, admin.ErrNoServer) {
		return err
	}
	return offline(dir, func(s *store.Store, signer *log.Signer) error { return fn(storedLog{s, signer}) })
}

type servedLog struct {
	ctx context.Context
	c   *admin.Client
}

func (l servedLog) Sealed() ([]log.Range, error) {
	var out struct{ Sealed []log.Range }
	err := l.c.Do(l.ctx, "GET", "/audit/sealed", nil, &out)
	return out.Sealed, err
}

func (l servedLog) Export(w io.Writer, r log.Range) error {
	query := url.Values{"from": {strconv.FormatUint(r.From, 10)}, "to": {strconv.FormatUint(r.To, 10)}}
	return l.c.Stream(l.ctx, "/audit/export?"+query.Encode(), w)
}

func (l servedLog) Key() (string, error) {
	var out struct{ Key string }
	err := l.c.Do(l.ctx, "GET", "/audit/key", nil, &out)
	return out.Key, err
}

type storedLog struct {
	s      *store.Store
	signer *log.Signer
}

func (l storedLog) Sealed() ([]log.Range, error)          { return l.s.Sealed(), nil }
func (l storedLog) Export(w io.Writer, r log.Range) error { return l.s.Export(w, l.signer, r) }
func (l storedLog) Key() (string, error)                  { return l.signer.PublicKey(), nil }
