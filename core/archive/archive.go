// Package archive gives sealed records to the operator's program before retention removes them. It owns how that is run
// and what counts as taken. It must never remove a record, and never say that records were taken after which the
// program failed.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
)

// Log is what is archived.
type Log interface {
	// Sealed are the ranges of records that are in complete files, the oldest first, without gaps.
	Sealed() []log.Range
	// Export writes a range with a header that signs exactly it.
	Export(w io.Writer, signer *log.Signer, r log.Range) error
}

// Settings are what an Archive needs. All are required.
type Settings struct {
	Program config.Archive
	Policy  confine.Policy // what the program keeps
	Log     Log
	Signer  *log.Signer
}

// Archive gives records to a program. It knows what was taken in this life only: after a restart a program may be given
// records again, with the same name.
type Archive struct {
	set  Settings
	done uint64 // the last record that was taken
}

// New makes an Archive.
func New(set Settings) *Archive { return &Archive{set: set} }

// Through gives the program all sealed records up to through that it has not taken yet. last is the last one that it
// has, of those up to through; 0 is none. One call at a time.
func (a *Archive) Through(ctx context.Context, through uint64) (last uint64, err error) {
	for _, r := range a.set.Log.Sealed() {
		if r.To > through {
			break // what goes must be whole
		}
		if r.To <= a.done {
			continue
		}
		if err := a.give(ctx, r); err != nil {
			return a.done, fmt.Errorf("audit.archive: records %d to %d: %w", r.From, r.To, err)
		}
		a.done = r.To
	}
	return min(a.done, through), nil
}

// Limits of the program: those that a plugin process has if none are configured.
const (
	mostMemory  = 1 << 30
	mostFiles   = 1024
	mostThreads = 1024
	mostDisk    = 1 << 30
)

func (a *Archive) command(r log.Range) (supervise.Command, error) {
	p := a.set.Program.Process()
	path, err := filepath.Abs(string(p.Exec))
	if err != nil {
		return supervise.Command{}, err
	}
	env := p.Environ()
	env["YETT_ARCHIVE_NAME"] = r.FileName()
	env["YETT_ARCHIVE_FROM"], env["YETT_ARCHIVE_TO"] = strconv.FormatUint(r.From, 10), strconv.FormatUint(r.To, 10)
	c := supervise.Command{Name: "archive", Path: path, Digest: p.Digest, Args: a.set.Program.Args, Env: env, Pipe: true,
		KeepInput: true, Confine: &a.set.Policy, Background: true,
		Limits: supervise.Limits{Data: mostMemory, Files: mostFiles, Threads: mostThreads, Disk: mostDisk}}
	if p.User.UID > 0 {
		c.User = &supervise.User{UID: uint32(p.User.UID), GID: uint32(p.User.GID)}
	}
	return c, nil
}

// give runs the program with one range, and returns nil only if it has taken all of it.
func (a *Archive) give(ctx context.Context, r log.Range) error {
	c, err := a.command(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.set.Program.Timeout.Std())
	defer cancel()
	p, err := supervise.Start(c)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, p.Kill)()
	read := make(chan struct{})
	go func() { // what it prints is nobody's, and must not stop it
		defer close(read)
		_, _ = io.Copy(io.Discard, p.Out())
	}()
	ignored := make(chan bool, 1)
	go func() { // a pipe takes some 64 KiB that nobody reads
		<-p.Done()
		n, err := p.Unread().Read(make([]byte, 1))
		p.Unread().Close()
		ignored <- n > 0 || err != io.EOF
	}()
	wrote := a.set.Log.Export(p.In(), a.set.Signer, r)
	if err := p.In().Close(); !errors.Is(err, os.ErrClosed) { // it is closed when the process has ended
		wrote = errors.Join(wrote, err)
	}
	if wrote != nil {
		p.Terminate() // it has not got all, and must not wait for more
	}
	<-p.Done()
	<-read
	ended := errors.Is(wrote, syscall.EPIPE) || errors.Is(wrote, os.ErrClosed)
	unread := <-ignored || ended
	switch exit := p.Exit(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s took longer than %v (timeout): it was killed", a.set.Program.Exec,
			a.set.Program.Timeout.Std())
	case ctx.Err() != nil:
		return ctx.Err()
	case wrote != nil && !ended:
		return wrote
	case exit.Err != "":
		return fmt.Errorf("%s: %s: %s", a.set.Program.Exec, exit.Err, quote.Begin(exit.Stderr, mostSaid))
	case unread:
		return fmt.Errorf("%s ended with exit status 0 and has not read all of its stdin", a.set.Program.Exec)
	}
	return nil
}

// mostSaid is how much is told of what the program says.
const mostSaid = 512
