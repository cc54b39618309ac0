package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
)

// admissionVersion goes up whenever the same module may get another verdict: a rule of the static check, a smoke
// vector, what counts as a refusal.
const admissionVersion = 3

// Bounds on the cache. When there are more verdicts the oldest are removed.
const (
	maxVerdictFile = 1 << 20
	maxVerdicts    = 1024
)

// admissionKey is all that a verdict depends on.
type admissionKey struct {
	Version  int
	Digest   string
	Engine   string // wazero's version and our own; "" when the binary does not know
	Platform string
	Limits   AdmitLimits
	Spec     string // hash of the Spec but its code, its name and its number of instances
	Schema   bool   // the config was held against the module's schema
}

func admissionKeyOf(opts *AdmitOptions, spec *Spec) (admissionKey, error) {
	s := *spec
	s.Name, s.Code, s.Instances = "", nil, 0
	doc, err := json.Marshal(s)
	if err != nil {
		return admissionKey{}, err
	}
	for _, mark := range spec.Hide.Marks() { // a verdict may name them
		doc = append(doc, mark...)
	}
	engine := opts.engine
	if engine == "" {
		engine = engineVersion()
	}
	return admissionKey{Version: admissionVersion, Digest: pin.Digest(spec.Code), Engine: engine,
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Limits: opts.Limits, Spec: pin.Digest(doc),
		Schema: opts.CheckConfig != nil}, nil
}

// sum is the key as a file name.
func (k admissionKey) sum() string {
	doc, _ := json.Marshal(k) // numbers and strings: it cannot fail
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

// engineVersion names the wazero in this binary and the binary's own version, as its build recorded them.
var engineVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == "github.com/tetratelabs/wazero" })
	if i < 0 {
		return ""
	}
	dep := info.Deps[i]
	if dep.Replace != nil {
		dep = dep.Replace
	}
	parts := []string{"wazero " + dep.Version, dep.Sum, "yett " + info.Main.Version, info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" {
			parts = append(parts, s.Key+"="+s.Value)
		}
	}
	return strings.Join(parts, ", ")
})

// verdictCache is a directory of verdicts, one file each, named by their key.
type verdictCache struct {
	dir string // "" keeps nothing
	log func(line string)
}

type verdictFile struct {
	Key     admissionKey
	Verdict Verdict
}

func (c verdictCache) path(key admissionKey) string { return filepath.Join(c.dir, key.sum()+".json") }

// load finds a verdict. A file that is not wholly in order is as good as none, and the log says so.
func (c verdictCache) load(key admissionKey) (Verdict, bool) {
	if c.dir == "" {
		return Verdict{}, false
	}
	v, err := c.read(key)
	switch {
	case err == nil:
		v.Cached = true
		return v, true
	case !errors.Is(err, fs.ErrNotExist):
		c.log(fmt.Sprintf("verdict cache: %s is ignored: %s", c.path(key), quote.Short(err.Error(), 200)))
	}
	return Verdict{}, false
}

func (c verdictCache) read(key admissionKey) (Verdict, error) {
	path := c.path(key)
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return Verdict{}, err
	case !st.Mode().IsRegular():
		return Verdict{}, errors.New("it is not a file")
	case st.Mode().Perm()&0o077 != 0:
		return Verdict{}, fmt.Errorf("it has mode %04o: want 0600", st.Mode().Perm())
	case st.Size() > maxVerdictFile:
		return Verdict{}, fmt.Errorf("%d bytes: at most %d are allowed", st.Size(), maxVerdictFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return Verdict{}, err
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxVerdictFile+1))
	if err != nil {
		return Verdict{}, err
	}
	return readVerdict(doc, key)
}

// readVerdict decodes a file of the cache and holds it against the key that it was found by.
func readVerdict(doc []byte, key admissionKey) (Verdict, error) {
	var file verdictFile
	if err := strictJSON(doc, &file); err != nil {
		return Verdict{}, err
	}
	v := file.Verdict
	if file.Key != key || v.Digest != key.Digest || v.Engine != key.Engine || v.Limits != key.Limits {
		return Verdict{}, errors.New("it is of something else")
	}
	r := admissionReport{OK: v.OK, BadConfig: v.BadConfig, Reason: v.Reason, Metadata: v.Metadata, Scans: v.Scans,
		Checks: v.Checks, Notes: v.Notes}
	return v, r.check()
}

// store keeps a verdict. A cache that cannot be written costs time, not safety, so that is a line in the log.
func (c verdictCache) store(key admissionKey, v Verdict) {
	if c.dir == "" {
		return
	}
	if err := c.write(key, v); err != nil {
		c.log("verdict cache: " + quote.Short(err.Error(), 200))
	}
}

func (c verdictCache) write(key admissionKey, v Verdict) error {
	doc, err := json.MarshalIndent(verdictFile{key, v}, "", "\t")
	if err != nil {
		return err
	}
	if len(doc) > maxVerdictFile {
		return fmt.Errorf("a verdict of %d bytes is not kept: at most %d", len(doc), maxVerdictFile)
	}
	f, err := os.CreateTemp(c.dir, "new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(doc, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path(key))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return c.prune()
}

// prune removes the oldest files above maxVerdicts.
func (c verdictCache) prune() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) <= maxVerdicts {
		return err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range infos[:max(0, len(infos)-maxVerdicts)] {
		if err := os.Remove(filepath.Join(c.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// maxAdmissions is how many admission processes run at once; the others wait.
const maxAdmissions = 2

// admissions are those of the whole process.
var admissions = admissionRuns{going: map[string]*admissionRun{}, places: make(chan struct{}, maxAdmissions)}

// admissionRuns make sure that the same module is tried once, however many ask.
type admissionRuns struct {
	places chan struct{}

	mu    sync.Mutex
	going map[string]*admissionRun
}

type admissionRun struct {
	done    chan struct{}
	verdict Verdict
	err     error
}

// do runs fn, or waits for whoever runs it for the same key. An error is not shared: the next one tries again, since it
// may have been the other's context that ended.
func (f *admissionRuns) do(ctx context.Context, key string, fn func() (Verdict, error)) (Verdict, error) {
	for {
		f.mu.Lock()
		other, there := f.going[key]
		if !there {
			mine := &admissionRun{done: make(chan struct{})}
			f.going[key] = mine
			f.mu.Unlock()
			f.lead(ctx, key, mine, fn)
			return mine.verdict, mine.err
		}
		f.mu.Unlock()
		select {
		case <-other.done:
			if other.err == nil {
				return other.verdict, nil
			}
		case <-ctx.Done():
			return Verdict{}, ctx.Err()
		}
	}
}

func (f *admissionRuns) lead(ctx context.Context, key string, mine *admissionRun, fn func() (Verdict, error)) {
	defer func() {
		f.mu.Lock()
		delete(f.going, key)
		f.mu.Unlock()
		close(mine.done)
	}()
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
		mine.verdict, mine.err = fn()
	case <-ctx.Done():
		mine.err = ctx.Err()
	}
}

// starvedOfThreads says whether a process may have ended because the machine had no threads left.
func starvedOfThreads(exit supervise.Exit) bool {
	return strings.Contains(exit.Stderr, "failed to create new OS thread") ||
		strings.Contains(exit.Stderr, "pthread_create")
}
