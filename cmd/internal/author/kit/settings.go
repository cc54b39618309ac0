package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/exact"
)

// maxSettings bounds the settings of a module as a gateway does, bytes.
const maxSettings = 1 << 20

// ReadSettings reads settings: a JSON object if given begins like one, and a file with a JSON object or a YAML mapping
// otherwise. Repeated names and what JSON cannot say are mistakes.
func ReadSettings(ctx context.Context, given string) (json.RawMessage, error) {
	if strings.HasPrefix(strings.TrimSpace(given), "{") {
		if err := strictObject(given); err != nil {
			return nil, fmt.Errorf("%w; want a JSON object, or a file that holds one", err)
		}
		return json.RawMessage(given), nil
	}
	data, err := regular.ReadNamed(ctx, given, maxSettings)
	if err != nil {
		return nil, fmt.Errorf("want a JSON object, or a file that holds one: %w", err)
	}
	return parseSettings(given, data)
}

// parseSettings reads a file: JSON as it is written, anything else as YAML.
func parseSettings(file string, data []byte) (json.RawMessage, error) {
	if text := bytes.TrimSpace(data); json.Valid(text) && bytes.HasPrefix(text, []byte("{")) {
		if err := strictObject(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return text, nil
	}
	r := &vectorReader{file: file}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, r.syntax(err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, r.fail(&doc, "the file has more than one document")
	}
	return r.object(doc.Content[0])
}

func strictObject(text string) error {
	var doc exact.Doc
	if err := doc.Parse(text, exact.DefaultLimits); err != nil {
		return err
	}
	if doc.Root().Kind() != exact.Object {
		return fmt.Errorf("a value that is no object")
	}
	return nil
}

// SettingsOf gives the settings that vectors are about, and the place where they stand: those of the first file that
// has any, else those of the first vector that has its own and does not want them refused. nil: there are none.
func SettingsOf(files []*Vectors) (config json.RawMessage, place string) {
	for _, f := range files {
		if f.Config != nil {
			return f.Config, "config of " + f.File
		}
	}
	for _, f := range files {
		for i := range f.List {
			if v := &f.List[i]; v.Config != nil && v.Error != WantRefused {
				return v.Config, fmt.Sprintf("config of %s:%d", f.File, v.Line)
			}
		}
	}
	return nil, ""
}

// WithSettings gives settings to the vectors that have none, neither of their own nor of their file.
func WithSettings(files []*Vectors, config json.RawMessage) {
	for _, f := range files {
		for i := range f.List {
			if f.List[i].Config == nil {
				f.List[i].Config = config
			}
		}
	}
}

// unsetError is a module that was tried without settings and does not start without.
type unsetError struct{ err error }

const howToSet = "give its settings with --config FILE, or as config in vectors"

func (e *unsetError) Error() string { return e.err.Error() + "; " + howToSet }
func (e *unsetError) Unwrap() error { return e.err }

// unset adds to an error of loading what an author can do about it.
func unset(config json.RawMessage, err error) error {
	if err == nil || config != nil || !host.IsConfig(err) {
		return err
	}
	return &unsetError{err}
}
