package conform

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// journal is what the plugin writes to its log. It looks for what must not be there and forgets the rest.
type journal struct {
	log func(line string)

	mu     sync.Mutex
	canary map[string]string // value → what it is
	found  string
	told   bool
}

// watch adds a value that must not be logged.
func (j *journal) watch(what, value string) {
	if len(value) < 8 {
		return // so short that it may be there by chance
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.canary == nil {
		j.canary = map[string]string{}
	}
	j.canary[value] = what
}

// line takes one line. It may be called from several goroutines.
func (j *journal) line(text string) {
	j.mu.Lock()
	for value, what := range j.canary {
		if j.found == "" && strings.Contains(text, value) {
			j.found = what
		}
	}
	log := j.log
	j.mu.Unlock()
	if log != nil {
		log(text)
	}
}

// complaint is the failure of whoever's turn it is when something was found; it is told once.
func (j *journal) complaint() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.found == "" || j.told {
		return nil
	}
	j.told = true
	return failed("log names, never values: the gateway's log is read by more people than may know a secret",
		"the plugin wrote %s to its log", j.found)
}

// secretFiles are the secrets as files that only we, and so the plugin, may read.
type secretFiles struct {
	dir     string
	paths   map[string]string
	standIn []string // names whose values are made up
}

// newSecrets writes them. What specs require and given has not gets a stand-in.
func newSecrets(given map[string][]byte, specs []*pluginv1.SecretSpec) (_ *secretFiles, values map[string]string,
	err error) {
	s := &secretFiles{paths: map[string]string{}}
	values = map[string]string{}
	for name, v := range given {
		values[name] = string(v)
	}
	for _, spec := range specs {
		if _, ok := values[spec.GetName()]; ok || !spec.GetRequired() {
			continue
		}
		values[spec.GetName()] = randomHex(16)
		s.standIn = append(s.standIn, spec.GetName())
	}
	slices.Sort(s.standIn)
	if len(values) == 0 {
		return s, values, nil
	}
	if s.dir, err = os.MkdirTemp("", "yett-conform-"); err != nil {
		return nil, nil, err
	}
	n := 0
	for name, value := range values {
		n++
		path := filepath.Join(s.dir, fmt.Sprint(n)) // a name of the plugin's is no file name
		if err := os.WriteFile(path, []byte(value), 0o400); err != nil {
			s.remove()
			return nil, nil, err
		}
		s.paths[name] = path
	}
	return s, values, nil
}

func (s *secretFiles) names() map[string]string {
	if s == nil {
		return nil
	}
	return s.paths
}

func (s *secretFiles) remove() {
	if s != nil && s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
