// Package deploy has no code: its tests hold the files with which a gateway is installed, the unit for systemd and the
// image of a container, to what their README says. They install nothing.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const installed = "/usr/local/bin/yett"

// TestUnit: systemd takes the unit, and it starts the binary as the README installs it.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("yett.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ExecStart=" + installed + " serve --config /etc/yett/yett.yaml\n",
		"RestartPreventExitStatus=78\n", "User=yett\n", "NoNewPrivileges=yes\n"} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("the unit has no line %q", line)
		}
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed, so nobody else reads the unit: ", err)
		return
	}
	self, err := os.Executable() // verify wants a program that is there
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "yett.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), installed, self)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, "verify", "--man=no", unit)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestContainerfile: the image runs the binary as a user who is not root, and begins with nothing.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"FROM scratch\n", "USER 65532:65532\n", `ENTRYPOINT ["` + installed + `"]` + "\n",
		`CMD ["serve", "--config", "/etc/yett/yett.yaml"]` + "\n"} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("the file has no line %q", line)
		}
	}
}
