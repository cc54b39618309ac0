package sockd

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestErrorsOfAcceptEndNothing(t *testing.T) {
	set := newRig(t, nil).set
	set.Path = filepath.Join(shortDir(t), "s")
	s, err := Listen(set)
	if err != nil {
		t.Fatal(err)
	}
	short := testkit.Short(s.ln)
	s.accept = func() (*net.UnixConn, error) {
		if err := short.Fail(); err != nil {
			return nil, err
		}
		return s.ln.AcceptUnix()
	}
	served := make(chan error, 1)
	go func() {
		served <- s.Serve()
		s.ln.Close() // who waits to be let in is told
	}()
	c, err := net.Dial("unix", set.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(`{"type":"hello","protocol":[1]}` + "\n")); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, `{"ok":true,`) {
		t.Errorf("%q %v", line, err)
	}
	c.Close()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
