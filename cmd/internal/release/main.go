// Command release builds what a release publishes, from one commit: for each system an archive with a static binary, a
// list of the modules in it (CycloneDX), and the SHA-256 sums of all. The same commit and the same Go give the same
// bytes. It publishes nothing.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/pin"
)

// programs are the commands in every archive.
var programs = []string{"yett", "yett-hook"}

// beside are the files that stand in every archive beside the binary.
var beside = []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "examples/deploy/README.md",
	"examples/deploy/yett.service", "examples/deploy/Containerfile"}

func main() {
	out := flag.String("out", "dist", "the directory to write to")
	systems := flag.String("systems", "linux/amd64,linux/arm64", "the systems to build for, as GOOS/GOARCH")
	dirty := flag.Bool("dirty", false, "build from a tree with changes that are not committed, to try this command")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, strings.Split(*systems, ","), *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// commit is what a release is made of.
type commit struct {
	version string // the tag of the commit, or its short hash
	at      time.Time
}

func run(ctx context.Context, out string, systems []string, dirty bool) error {
	root, err := output(ctx, nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	from, err := head(ctx, root, dirty)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var made []string
	for _, system := range systems {
		names, err := buildOne(ctx, root, out, system, from)
		if err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
		made = append(made, names...)
	}
	sums, err := sumsOf(out, made)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums, 0o644); err != nil {
		return err
	}
	_, err = os.Stdout.Write(sums)
	return err
}

// head reads the commit that is checked out. A tree with changes is no commit.
func head(ctx context.Context, root string, dirty bool) (commit, error) {
	changed, err := output(ctx, nil, "git", "-C", root, "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if changed != "" && !dirty {
		return commit{}, errors.New("the tree has changes that are not committed: commit them, or try it with -dirty")
	}
	at, err := output(ctx, nil, "git", "-C", root, "log", "-1", "--format=%ct")
	if err != nil {
		return commit{}, err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("the time of the commit: %w", err)
	}
	version, err := output(ctx, nil, "git", "-C", root, "describe", "--tags", "--always", "--abbrev=12")
	return commit{version, time.Unix(seconds, 0).UTC()}, err
}

// buildOne builds the archive and the list of modules for one system. It gives their names.
func buildOne(ctx context.Context, root, out, system string, from commit) ([]string, error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return nil, errors.New("expected GOOS/GOARCH, such as linux/amd64")
	}
	tmp, err := os.MkdirTemp("", "yett-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0")
	// grpcnotrace: gRPC's own pages of recent requests, which nothing of ours serves, are 120 KB. nethttpomithttp2: HTTP/2
	// of net/http, which nothing of ours asks for (gRPC has its own), is 550 KB.
	var files []entry
	for _, name := range programs {
		path := filepath.Join(tmp, name)
		if _, err := output(ctx, env, "go", "build", "-C", root, "-trimpath", "-buildvcs=true",
			"-tags=grpcnotrace,nethttpomithttp2",
			"-ldflags=-s -w -buildid=", "-o", path, "./cmd/"+name); err != nil {
			return nil, err
		}
		files = append(files, entry{name: name, path: path, mode: 0o755})
	}
	binary := files[0].path // its modules are all: the others are parts of it
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	for _, name := range beside {
		files = append(files, entry{name: name, path: filepath.Join(root, name), mode: 0o644})
	}
	name := fmt.Sprintf("yett_%s_%s_%s", from.version, goos, goarch)
	var archive bytes.Buffer
	if err := writeArchive(&archive, name, files, from.at); err != nil {
		return nil, err
	}
	digest, err := pin.File(binary, 1<<30)
	if err != nil {
		return nil, err
	}
	bom, err := modules(info, from, digest)
	if err != nil {
		return nil, err
	}
	names := []string{name + ".tar.gz", name + ".cdx.json"}
	return names, errors.Join(os.WriteFile(filepath.Join(out, names[0]), archive.Bytes(), 0o644),
		os.WriteFile(filepath.Join(out, names[1]), bom, 0o644))
}

// sumsOf lists the SHA-256 sums of files as sha256sum -c reads them.
func sumsOf(dir string, names []string) ([]byte, error) {
	var b bytes.Buffer
	for _, name := range names {
		digest, err := pin.File(filepath.Join(dir, name), 1<<30)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s  %s\n", strings.TrimPrefix(digest, "sha256:"), name)
	}
	return b.Bytes(), nil
}

// output runs a program and gives what it prints, without the last line feed. The error holds what it says on stderr.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &said)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}
