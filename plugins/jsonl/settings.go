package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

// config is what operators write.
type config struct {
	Path         string `json:"path"`
	Mode         string `json:"mode"`
	MaxBytes     int64  `json:"max_bytes"`
	MaxFiles     *int   `json:"max_files"`
	MaxAge       string `json:"max_age"`
	Completeness string `json:"completeness"`
	RetryFor     string `json:"retry_for"`
}

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "not": {"pattern": "(^|/)\\.{0,2}$"}, "description": "the file that is appended to; its folder must exist"},
    "mode": {"enum": ["0600", "0640"], "default": "0600"},
    "max_bytes": {"type": "integer", "minimum": 4096, "maximum": 1099511627776, "default": 104857600, "description": "a file is rotated before it grows beyond this"},
    "max_files": {"type": "integer", "minimum": 0, "maximum": 100000, "default": 100, "description": "rotated files that are kept; 0 keeps all"},
    "max_age": {"type": "string", "pattern": "^(([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)?$", "maxLength": 32, "default": "", "description": "rotated files older than this are removed, such as 2160h; empty keeps them"},
    "completeness": {"enum": ["off", "roots", "leaves"], "default": "off", "description": "write a second file with the log's tree root of each batch, and the leaf hash of each record"},
    "retry_for": {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$", "maxLength": 32, "default": "20s", "description": "how long a write that fails is tried again before the batch is given back; at most 25s"}
  }
}`

// settings are a config that holds.
type settings struct {
	path         string
	mode         os.FileMode
	maxBytes     int64
	maxFiles     int
	maxAge       time.Duration
	completeness string
	retryFor     time.Duration
}

// read checks the settings without touching anything.
func read(s plugin.Settings) (settings, error) {
	c := config{Mode: "0600", MaxBytes: 100 << 20, Completeness: "off", RetryFor: "20s"}
	if err := s.Decode(&c); err != nil {
		return settings{}, err
	}
	out := settings{path: c.Path, mode: 0o600, maxBytes: c.MaxBytes, maxFiles: 100, completeness: c.Completeness}
	var problems plugin.Problems
	wrong := func(field, message string) {
		problems = append(problems, plugin.Problem{Field: field, Message: message})
	}
	if base := filepath.Base(c.Path); c.Path == "" || strings.HasSuffix(c.Path, "/") || base == "." || base == ".." {
		wrong("/path", "must name a file")
	}
	switch c.Mode {
	case "0600":
	case "0640":
		out.mode = 0o640
	default:
		wrong("/mode", "must be 0600 or 0640")
	}
	if c.MaxBytes < 4096 || c.MaxBytes > 1<<40 {
		wrong("/max_bytes", "must be 4096 to 1099511627776")
	}
	if c.MaxFiles != nil {
		if out.maxFiles = *c.MaxFiles; out.maxFiles < 0 || out.maxFiles > 100_000 {
			wrong("/max_files", "must be 0 to 100000")
		}
	}
	if c.Completeness != "off" && c.Completeness != "roots" && c.Completeness != "leaves" {
		wrong("/completeness", "must be off, roots or leaves")
	}
	var err error
	if c.MaxAge != "" {
		if out.maxAge, err = time.ParseDuration(c.MaxAge); err != nil || out.maxAge < time.Minute {
			wrong("/max_age", "must be a duration of a minute or more, such as 2160h")
		}
	}
	if out.retryFor, err = time.ParseDuration(c.RetryFor); err != nil || out.retryFor < 0 ||
		out.retryFor > 25*time.Second {
		wrong("/retry_for", "must be a duration of 0s to 25s")
	}
	if problems != nil {
		return settings{}, problems
	}
	return out, nil
}
