package mcptest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// Stdio is a raw client of a program. Its requests run one after the other, except by Send and Next.
type Stdio struct {
	Era    string
	Answer Answerer // of the server's requests, or nil
	in     io.WriteCloser
	lines  chan []byte
	end    error // once lines is closed
}

// StartStdio starts a program and speaks to it. The test's end ends it. env is added to this process's own.
func StartStdio(t testing.TB, era string, env []string, argv ...string) *Stdio {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe() // not StdoutPipe, whose Wait would close it before the last line is read
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	start(t, cmd)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c := &Stdio{Era: era, in: in, lines: make(chan []byte)}
	done := make(chan struct{})
	t.Cleanup(func() { // before the one of start, which kills the program
		close(done)
		_ = in.Close() // a test may have closed it
		_ = out.Close()
	})
	go func() {
		defer close(c.lines)
		r := bufio.NewReaderSize(out, 1<<16)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				c.end = io.EOF
				if len(line) > 0 || !errors.Is(err, io.EOF) {
					c.end = fmt.Errorf("%w: %.100q", io.ErrUnexpectedEOF, line)
				}
				return
			}
			select {
			case c.lines <- line[:len(line)-1]:
			case <-done:
				return
			}
		}
	}()
	return c
}

// Send writes a line.
func (c *Stdio) Send(message []byte) error {
	_, err := c.in.Write(append(message[:len(message):len(message)], '\n'))
	return err
}

// Next is the next line.
func (c *Stdio) Next(ctx context.Context) ([]byte, error) {
	select {
	case line, ok := <-c.lines:
		if !ok {
			return nil, c.end
		}
		return line, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Open begins.
func (c *Stdio) Open(ctx context.Context) ([]byte, error) {
	messages, err := c.Do(ctx, opening(c.Era))
	if err != nil {
		return nil, err
	}
	if c.Era != rawmcp.Modern {
		err = c.Send([]byte(initialized))
	}
	return messages[len(messages)-1], err
}

// Do sends a request and reads until its answer.
func (c *Stdio) Do(ctx context.Context, request []byte) (messages [][]byte, err error) {
	if err := c.Send(request); err != nil {
		return nil, err
	}
	id := open(request).ID
	for {
		line, err := c.Next(ctx)
		if err != nil {
			return messages, err
		}
		messages = append(messages, line)
		m := open(line)
		if m.answers(id) {
			return messages, nil
		}
		if m.Method != "" && len(m.ID) > 0 && c.Answer != nil {
			if answer := c.Answer(line); answer != nil {
				if err := c.Send(answer); err != nil {
					return messages, err
				}
			}
		}
	}
}

// Notify sends a message that has no answer.
func (c *Stdio) Notify(_ context.Context, message []byte) error { return c.Send(message) }

// CloseInput ends the program's input, as a client does that goes.
func (c *Stdio) CloseInput() error { return c.in.Close() }
