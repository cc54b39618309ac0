// Package kit is what the author of a WASM module gets from the gateway: a project to begin with, builds, tests against
// vectors, conformance, measurements and packages. It owns the project templates, the build recipes, the format of the
// vectors and the list of conformance checks. Every module runs in the production host with the production limits, so
// what passes here passes there. It must never take an error for a pass, write outside the folder it was given, or need
// a network. Sources and modules come from the author's folder; reports go to the commands of cmd/yett.
package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/abi"
)

// Settings are the surroundings in which modules run. The zero value works.
type Settings struct {
	// CacheDir holds compiled code, and verdicts of admission, between runs; "" means none. It must be private to us.
	CacheDir string
	// CheckConfig checks a configuration against the JSON Schema in a module's metadata, as the gateway does; nil leaves
	// it to the module.
	CheckConfig func(schema map[string]any, config json.RawMessage) error
	// Log takes what a module logs and prints; nil drops it. It may be called from several goroutines.
	Log func(level int, line string)
	// Fuel is what one call of a module may spend, units; 0 is DefaultFuel.
	Fuel uint64
}

// Module is a module's file, or what a project was built to.
type Module struct {
	Name string // of the file, without its ending; a name the host accepts
	Path string
	Code []byte
}

// ReadModule reads a module's file, at most abi.MaxModule bytes.
func ReadModule(path string) (Module, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Module{}, err
	}
	if !info.Mode().IsRegular() {
		return Module{}, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > abi.MaxModule {
		return Module{}, fmt.Errorf("%s has %d bytes: a module has at most %d", path, info.Size(), abi.MaxModule)
	}
	code, err := regular.Read(path, abi.MaxModule)
	if err != nil {
		return Module{}, err
	}
	return Module{Name: hostName(path), Path: path, Code: code}, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// hostName makes a name that the host accepts out of a file's.
func hostName(path string) string {
	name := strings.TrimSuffix(path[strings.LastIndexByte(path, os.PathSeparator)+1:], ".wasm")
	name = strings.TrimLeft(notInNames.ReplaceAllString(name, "-"), "._-")
	if len(name) > 64 {
		name = name[:64]
	}
	if name == "" {
		return "module"
	}
	return name
}

func (s *Settings) host(ctx context.Context) (*host.Host, error) {
	opts := host.Options{CacheDir: s.CacheDir, CheckConfig: s.CheckConfig}
	if s.Log != nil {
		opts.Log = func(_ string, level int, line string) { s.Log(level, line) }
	}
	return host.New(ctx, opts)
}

// Printable makes text of a module or of an input fit for a terminal and a line: at most n bytes of it, escapes for
// what could hide or move text.
func Printable(s string, n int) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		if i+size > n {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}
