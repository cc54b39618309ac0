package scan

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

// gitCommand is git with nothing of a repository's configuration that runs a program or shows other bytes than those
// that are committed. The environment is the caller's: in a hook it says which index is to be committed.
func gitCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-replace-objects", "--literal-pathspecs", "-c",
		"core.fsmonitor=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	return cmd
}

// gitOutput runs git and gives what it prints.
func gitOutput(ctx context.Context, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := gitCommand(ctx, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		said := kit.Printable(strings.TrimSpace(stderr.String()), 300)
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, said)
	}
	return out, nil
}

// entry is one changed path of the index.
type entry struct{ mode, blob, status, path string }

// stagedEntries lists what a commit would change.
func stagedEntries(ctx context.Context) ([]entry, error) {
	out, err := gitOutput(ctx, "diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff",
		"--no-relative", "--ignore-submodules=none", "--diff-filter=d")
	if err != nil {
		return nil, err
	}
	return parseRaw(string(out))
}

// parseRaw reads what git diff --raw -z prints.
func parseRaw(out string) ([]entry, error) {
	if out == "" {
		return nil, nil
	}
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(fields)%2 != 0 {
		return nil, errors.New("git diff printed half an entry")
	}
	var all []entry
	for i := 0; i < len(fields); i += 2 {
		f := strings.Fields(fields[i]) // :100644 100755 OLD NEW STATUS
		if len(f) != 5 || fields[i+1] == "" {
			return nil, fmt.Errorf("git diff printed %q: expected modes, blobs, a status and a path",
				kit.Printable(fields[i], 200))
		}
		all = append(all, entry{f[1], f[3], f[4], fields[i+1]})
	}
	return all, nil
}

// staged gives the texts that a commit would add or change, as they are in the index. The working tree is not read.
func staged(ctx context.Context, readers *blobs) (items, error) {
	all, err := stagedEntries(ctx)
	if err != nil {
		return nil, cli.Fail(ExitUnscanned, fmt.Errorf("--staged: %w", err))
	}
	return func(yield func(item) bool) {
		for _, e := range all {
			it := item{name: shownName(e.path)}
			switch {
			case e.status == "U":
				it.err = errors.New("it is unmerged: resolve the conflict, and add it")
			case e.mode == "160000":
				it.skip = skipSubmodule
			case e.mode == "120000":
				it.skip = skipLink
			default:
				it.open = func(context.Context) (io.ReadCloser, int64, error) { return readers.open(e.blob) }
			}
			if !yield(it) {
				return
			}
		}
	}, nil
}

// topOfTree is the folder that the paths of an index are relative to.
func topOfTree(ctx context.Context) (string, error) {
	out, err := gitOutput(ctx, "rev-parse", "--show-toplevel")
	return strings.TrimSuffix(string(out), "\n"), err
}

// blobs are processes of git cat-file, as many as are in use at one time.
type blobs struct {
	ctx  context.Context // of the run: a process serves one file after another
	idle chan *catFile
}

func newBlobs(ctx context.Context, workers int) *blobs {
	return &blobs{ctx, make(chan *catFile, workers)}
}

// catFile is one git cat-file --batch.
type catFile struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// open asks for a blob. It is to be closed before the same process can give another.
func (b *blobs) open(blob string) (io.ReadCloser, int64, error) {
	var c *catFile
	select {
	case c = <-b.idle:
	default:
		var err error
		if c, err = startCatFile(b.ctx); err != nil {
			return nil, 0, err
		}
	}
	size, err := c.ask(blob)
	if err != nil {
		return nil, 0, errors.Join(err, c.end())
	}
	return &blobReader{blobs: b, c: c, left: size}, size, nil
}

// close ends the processes, when no blob is open.
func (b *blobs) close() error {
	var errs []error
	for {
		select {
		case c := <-b.idle:
			errs = append(errs, c.end())
		default:
			return errors.Join(errs...)
		}
	}
}

func startCatFile(ctx context.Context) (*catFile, error) {
	c := &catFile{cmd: gitCommand(ctx, "cat-file", "--batch")}
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, nil
}

func (c *catFile) ask(blob string) (size int64, err error) {
	if _, err := io.WriteString(c.in, blob+"\n"); err != nil {
		return 0, fmt.Errorf("git cat-file: %w", err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("git cat-file: %w", err)
	}
	f := strings.Fields(line) // BLOB blob SIZE
	if len(f) != 3 || f[0] != blob || f[1] != "blob" {
		return 0, fmt.Errorf("git cat-file has no such blob: %s", kit.Printable(strings.TrimSpace(line), 200))
	}
	return strconv.ParseInt(f[2], 10, 64)
}

// end ends the process. One that still has something to say gets an error for it.
func (c *catFile) end() error {
	err := c.in.Close()
	if werr := c.cmd.Wait(); werr != nil {
		err = fmt.Errorf("git cat-file: %w: %s", werr, kit.Printable(strings.TrimSpace(c.stderr.String()), 300))
	}
	return err
}

// errCut is not io.ErrUnexpectedEOF, which readers of pieces take for a normal end.
var errCut = errors.New("git cat-file ended within a blob")

// blobReader reads one blob.
type blobReader struct {
	blobs *blobs
	c     *catFile
	left  int64
}

func (r *blobReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.c.out.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); errors.Is(err, io.EOF) && r.left > 0 {
		err = errCut
	}
	return n, err
}

// Close gives the process back once the rest of the blob is read; a process that cannot go on ends.
func (r *blobReader) Close() error {
	_, err := io.Copy(io.Discard, io.LimitReader(r.c.out, r.left+1)) // the line break behind it too
	if err != nil {
		return errors.Join(err, r.c.end())
	}
	select {
	case r.blobs.idle <- r.c:
		return nil
	default:
		return r.c.end()
	}
}
