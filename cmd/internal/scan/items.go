package scan

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/sdk"
)

// Why a file is skipped.
const (
	skipIgnored   = "ignored"
	skipGit       = "git"
	skipBinary    = "binary"
	skipUTF16     = "utf-16"
	skipLarge     = "large"
	skipLink      = "symlink"
	skipSpecial   = "special"
	skipSubmodule = "submodule"
)

// skipMeans says for each reason what it is, in the order of reports.
var skipMeans = []struct{ reason, means string }{
	{skipIgnored, "ignored by .gitignore (an ignored folder counts once)"},
	{skipGit, "folder of git"},
	{skipBinary, "binary (a NUL byte in the first 8 KiB)"},
	{skipUTF16, "UTF-16 text, which scanners do not read"},
	{skipLarge, "larger than --max-size"},
	{skipLink, "symbolic link"},
	{skipSpecial, "pipe, socket or device"},
	{skipSubmodule, "submodule"},
}

// item is a text to scan, or one that is not scanned.
type item struct {
	name  string // as reports show it: slashes, valid UTF-8
	named bool   // the user has named it, so not to scan it is a failure
	skip  string // why it is not scanned; "" if it is
	err   error  // why it cannot be scanned
	open  func(ctx context.Context) (r io.ReadCloser, size int64, err error)
}

// items are the texts of a run in the order of the report.
type items = iter.Seq[item]

// shownName is a path as reports show it.
func shownName(path string) string {
	path = filepath.ToSlash(path)
	if utf8.ValidString(path) {
		return path
	}
	var b strings.Builder
	for i, r := range path {
		if _, size := utf8.DecodeRuneInString(path[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, path[i])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// stdin is the text "-".
func stdin(r io.Reader) item {
	return item{name: "-", named: true, open: func(ctx context.Context) (io.ReadCloser, int64, error) {
		return io.NopCloser(&interruptible{ctx, r}), -1, nil
	}}
}

// interruptible is a reader that nobody waits for once ctx has ended: a person may have to type the rest.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	type read struct {
		n   int
		err error
	}
	own := make([]byte, len(p)) // a read that is left behind must not write to what the caller has
	done := make(chan read, 1)
	go func() {
		n, err := i.r.Read(own)
		done <- read{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, own[:got.n]), got.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}

// file is a file that the user has named. A link leads to where the user wants it to.
func file(path string) item {
	return item{name: shownName(filepath.Clean(path)), named: true,
		open: func(ctx context.Context) (io.ReadCloser, int64, error) {
			r, err := regular.Named(ctx, path)
			if err != nil {
				return nil, 0, err
			}
			size := int64(-1)
			if f, ok := r.(*os.File); ok {
				info, err := f.Stat()
				if err != nil {
					return nil, 0, errors.Join(err, f.Close())
				}
				size = info.Size()
			}
			return r, size, nil
		}}
}

// result is what became of an item.
type result struct {
	item
	bytes int64
	*places
}

// headSize is how much of a file is looked at to see whether it is text, bytes.
const headSize = 8 << 10

// work scans an item. What is wrong with it is in the result.
func (e *engine) work(ctx context.Context, it item, least sdk.Severity, most int64) (res result) {
	res = result{item: it, places: newPlaces(it.name, least)}
	if res.noAllow = e.noAllow; it.skip != "" || it.err != nil {
		return res
	}
	r, size, err := it.open(ctx)
	if err != nil {
		return res.fail(err)
	}
	defer func() {
		if err := r.Close(); err != nil && res.err == nil && res.skip == "" {
			res = res.fail(err)
		}
	}()
	if size > most {
		return res.skipped(skipLarge)
	}
	counted := &bounded{r: r, left: most}
	head := bufio.NewReaderSize(counted, headSize)
	first, err := head.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return res.fail(err)
	}
	if reason := unreadable(first); reason != "" {
		return res.skipped(reason)
	}
	if err := e.scan(ctx, head, res.take); err != nil {
		return res.fail(err)
	}
	res.endLine()
	res.bytes = most - counted.left
	return res
}

// unreadable says why a text that begins so is skipped; "" if it is not.
func unreadable(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return skipUTF16
	case bytes.IndexByte(head, 0) >= 0:
		return skipBinary
	}
	return ""
}

var errInterrupted = errors.New("interrupted")

// fail makes an item one that could not be scanned. What was found in it before stays found.
func (r result) fail(err error) result {
	var path *fs.PathError
	if errors.As(err, &path) { // the name is said anyway
		err = path.Err
	}
	if errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	r.endLine()
	r.err = err
	return r
}

// skipped makes an item one that was not scanned.
func (r result) skipped(reason string) result {
	if r.skip = reason; r.named {
		r.skip, r.err = "", fmt.Errorf("it was named and cannot be scanned: %s", meaning(reason))
	}
	return r
}

func meaning(reason string) string {
	for _, m := range skipMeans {
		if m.reason == reason {
			return m.means
		}
	}
	return reason
}

// errGrew is a text that is longer than it was said to be, or that tells no length.
var errGrew = errors.New("it is larger than --max-size")

// bounded reads so many bytes at most.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (n int, err error) {
	if b.left == 0 {
		if n, err = b.r.Read(make([]byte, 1)); n > 0 {
			return 0, errGrew
		}
		return 0, err
	}
	n, err = b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
