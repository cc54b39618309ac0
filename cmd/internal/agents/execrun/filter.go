package execrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
	"github.com/yett-dev/yett/sdk/wire"
)

// A filter lets the output of the agent's own shell through, for a command that runs in it. The shell and the filter
// meet at four named pipes in a directory of the ticket's:
//
//	out, err  what the shell prints while the command runs; two names of one pipe if the agent reads both from one file
//	end       the shell writes a byte when the command is over
//	ack       the filter writes a byte when all output has been written
const (
	pipeOut, pipeErr, pipeEnd, pipeAck = "out", "err", "end", "ack"
)

// meeting is how long a filter waits for its shell.
const meeting = 10 * time.Second

// job is what a filter is told.
type job struct {
	File, Dir            string
	Tool, Agent, Session string
	One                  bool // out and err are one pipe
}

// openFilter consumes a ticket and starts the filter of its command. Without an error the shell may run the command.
func openFilter(x *Exec, args []string, stdout, stderr *os.File) error {
	if x.Ticket == "" || len(args) != 1 {
		return refuse(errors.New("--open: expected --ticket ID and one argument, the command"))
	}
	if _, err := hookfile.Load(x.File); err != nil {
		return refuse(err)
	}
	t, err := wrap.Take(x.File, x.Ticket, time.Now())
	if err == nil {
		err = t.Fits(args[0])
	}
	if err != nil {
		return refuse(err)
	}
	j := job{File: x.File, Dir: wrap.Pipes(x.File, x.Ticket), Tool: t.Tool, Agent: t.AgentID, Session: t.SessionID,
		One: same(stdout, stderr)}
	if err := makePipes(j.Dir, j.One); err != nil {
		return refuse(errors.Join(fmt.Errorf("cannot make the pipes of the filter: %w", err), os.RemoveAll(j.Dir)))
	}
	if err := startFilter(j, stdout, stderr); err != nil {
		return refuse(errors.Join(fmt.Errorf("cannot start the filter: %w", err), os.RemoveAll(j.Dir)))
	}
	return nil
}

func makePipes(dir string, one bool) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	names := []string{pipeOut, pipeEnd, pipeAck, pipeErr}
	if one {
		names = names[:3]
	}
	for _, name := range names {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			return err
		}
	}
	if one {
		return os.Link(filepath.Join(dir, pipeOut), filepath.Join(dir, pipeErr))
	}
	return nil
}

// startFilter starts the process that outlives this one, and waits until it is ready.
func startFilter(j job, stdout, stderr *os.File) error {
	cmd, err := self("--filter")
	if err != nil {
		return err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer told.Close()
	ready, say, err := os.Pipe()
	if err != nil {
		tell.Close()
		return err
	}
	defer ready.Close()
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = stdout, stderr, []*os.File{told, say}, apart()
	err = cmd.Start()
	say.Close()
	if err == nil {
		err = json.NewEncoder(tell).Encode(j)
	}
	err = errors.Join(err, tell.Close())
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		return errors.Join(errors.New("it has ended"), cmd.Wait())
	}
	return cmd.Process.Release()
}

// runFilter is the filter's process: 3 is its job, 4 says that it is ready.
func runFilter() error {
	told, ready := os.NewFile(3, "job"), os.NewFile(4, "ready")
	if told == nil || ready == nil {
		return refuseWith(refuse(errors.New("--filter is for exec itself")))
	}
	var j job
	if err := errors.Join(json.NewDecoder(told).Decode(&j), told.Close()); err != nil {
		return refuseWith(refuse(errors.New("--filter is for exec itself")))
	}
	stdout, stderr, err := moveOutputs()
	if err != nil {
		return refuseWith(refuse(err))
	}
	if err := muteStderr(); err != nil { // the agent must not wait for a descriptor that nobody uses
		return refuseWith(refuse(err))
	}
	// the shell's signals are not the filter's: it ends when the shell has
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP)
	file, err := hookfile.Load(j.File)
	if err != nil {
		return refuseWith(refuse(err))
	}
	gate, err := hookrun.Dial(file)
	if err != nil {
		return refuseWith(refuse(err))
	}
	defer gate.Close()
	_, err = ready.Write([]byte{1})
	if err = errors.Join(err, ready.Close()); err != nil {
		return refuseWith(refuse(err))
	}
	return j.run(gate, stdout, stderr)
}

// run meets the shell and lets its output through.
func (j *job) run(gate scanner, stdout, stderr *os.File) error {
	late := time.AfterFunc(meeting, func() {
		_ = os.RemoveAll(j.Dir)
		os.Exit(1)
	})
	o := &outputs{notes: stderr}
	var files [4]*os.File // in the order in which the shell opens them
	for i, name := range []string{pipeOut, pipeErr, pipeEnd, pipeAck} {
		if name == pipeErr && j.One {
			continue
		}
		flag := os.O_RDONLY
		if name == pipeAck {
			flag = os.O_WRONLY
		}
		f, err := os.OpenFile(filepath.Join(j.Dir, name), flag, 0)
		if err != nil {
			return errors.Join(err, os.RemoveAll(j.Dir))
		}
		files[i] = f
	}
	late.Stop()
	_ = os.RemoveAll(j.Dir) // all have what they need; what stays, the next ticket's issue does not mind
	o.flows = append(o.flows, &flow{"out", newSource(files[0], false), stdout})
	if !j.One {
		o.flows = append(o.flows, &flow{"err", newSource(files[1], false), stderr})
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if n, _ := files[2].Read(make([]byte, 1)); n == 1 {
			o.finish()
		} // else the shell has died or become another program: the pipes end when nobody holds them
	}()
	o.scan(context.Background(), nil, (&Exec{}).patience(), func(name string) (scanner, wire.ScanRequest) {
		return gate, wire.ScanRequest{ToolID: j.Tool, AgentID: j.Agent, SessionID: j.Session, StreamID: streamID(name)}
	})
	<-over // the shell lets go of its pipes before it says so, and would end if nobody listened
	for _, f := range o.flows {
		if f.src.held {
			fmt.Fprintln(o.notes, stillRuns)
			break
		}
	}
	stdout.Close() // or the agent would wait for what stays behind
	stderr.Close()
	_, _ = files[3].Write([]byte("\n")) // a shell that has died reads nothing
	files[3].Close()
	for _, f := range o.flows {
		if f.src.held {
			discard(f.src.f)
		}
	}
	return nil
}
