package reload

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/sdk"
)

// A full disk is not the configuration's fault.
func TestRefusal(t *testing.T) {
	full := fmt.Errorf("it could not be recorded: %w", &sdk.Error{Code: sdk.CodeAuditUnavailable, Msg: "the disk is full"})
	if e := refusal(full, full.Error()); e.Code != sdk.CodeAuditUnavailable || e.Field != "" {
		t.Errorf("the disk: %+v", e)
	}
	if e := refusal(errors.New("no such key"), "no such key"); e.Code != sdk.CodeInvalidField || e.Field != "config" {
		t.Errorf("the configuration: %+v", e)
	}
}

// A pipe in the place of a plugin's program is no file that can be read, at once.
func TestPluginFileIsAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() { done <- otherFile(config.Plugin{Exec: config.Path(pipe), Digest: "sha256:00"}) }()
	select {
	case said := <-done:
		if said == "" {
			t.Error("nothing is said of it")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
}
