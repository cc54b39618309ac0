// Package authorizerpython tests what can be tested of the example without its packages. The program itself is tried by
// sdk/plugin, which has a client: go test ./sdk/plugin -run Python, with YETT_PYTHON set.
package authorizerpython

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/plugin"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTheFilesAgree holds the Python against the Go side of the handshake and the document against the program.
func TestTheFilesAgree(t *testing.T) {
	program, lib, doc := read(t, "authorizer.py"), read(t, "yett_plugin.py"), read(t, "README.md")
	for _, want := range []string{`"` + plugin.CookieKey + `"`, `"` + plugin.CookieValue + `"`} {
		if !strings.Contains(lib, want) {
			t.Errorf("yett_plugin.py has no %s", want)
		}
	}
	codes := regexp.MustCompile(`Verdict\.(?:deny|defer|permit)\("([A-Z_]+)"`).FindAllStringSubmatch(program, -1)
	if len(codes) != 3 {
		t.Errorf("%d codes in authorizer.py, want 3", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(doc, "`"+c[1]+"`") {
			t.Errorf("README.md does not name %s", c[1])
		}
	}
	needs := read(t, "requirements.txt")
	for _, name := range []string{"grpcio", "grpcio-tools", "cryptography"} {
		if !regexp.MustCompile(`(?m)^` + name + `==[0-9.]+$`).MatchString(needs) {
			t.Errorf("requirements.txt does not pin %s", name)
		}
	}
}

// TestSyntax has each file compiled by whatever Python there is.
func TestSyntax(t *testing.T) {
	python, err := exec.LookPath("python3")
	if name := os.Getenv("YETT_PYTHON"); name != "" {
		python, err = name, nil
	}
	if err != nil {
		t.Skip("there is no python3, and YETT_PYTHON is not set")
	}
	for _, name := range []string{"authorizer.py", "yett_plugin.py"} {
		out, err := exec.Command(python, "-c", "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')",
			name).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
