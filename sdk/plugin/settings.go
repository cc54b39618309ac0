package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	maxSecret   = 1 << 20 // bytes of one secret
	maxProblems = 64      // that one answer carries
	maxLine     = 1024    // bytes of a message, reason, error or detail
)

// Problem is one thing wrong with the settings.
type Problem struct {
	Field   string // where, as a JSON pointer into the settings such as /rules/0/effect; "" for the whole
	Message string // what, one sentence
}

// Error joins the field and the message.
func (p Problem) Error() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// Problems is an error of Validate or Configure that names fields. An empty list is still an error where it is returned
// as one: return nil when there are none.
type Problems []Problem

// Error joins all of them.
func (p Problems) Error() string {
	all := make([]string, len(p))
	for i, one := range p {
		all[i] = one.Error()
	}
	return strings.Join(all, "; ")
}

// Decode reads the settings into dst, a pointer to a struct, strictly: unknown members, members given twice, names in
// another case, bad UTF-8 and values of another type are errors, and so is null for what cannot be nil. A number is an
// integer in any notation, as it is to JSON Schema: an int64 takes 1000, 1000.0 and 1e3, but not 1.5 and not what does
// not fit. It is for Validate and Configure; the error is a Problem that points at the member.
func (s Settings) Decode(dst any) error {
	config := s.Config
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	var doc exact.Doc
	if p := readObject(&doc, config); p != nil {
		return *p
	}
	if p := strictly(doc.Root(), reflect.TypeOf(dst), ""); p != nil {
		return *p
	}
	config = plain(nil, doc.Root(), reflect.TypeOf(dst))
	if p := readObject(&doc, config); p != nil {
		return *p
	}
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(dst); err != nil {
		return misfit(doc.Root(), reflect.TypeOf(dst), "", err)
	}
	return nil
}

// readObject parses settings, which are one JSON object.
func readObject(doc *exact.Doc, config []byte) *Problem {
	err := doc.Parse(string(config), exact.DefaultLimits)
	var wrong *exact.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return &Problem{placeOf(config, int64(wrong.Offset)), err.Error()}
	case err != nil:
		return &Problem{Message: err.Error()}
	case doc.Root().Kind() != exact.Object:
		return &Problem{Message: "the settings must be a JSON object, not " + doc.Root().Kind().String()}
	}
	return nil
}

// settings makes Settings of a request. Problems with the secrets are returned as such.
func (s *server) settings(req *pluginv1.ConfigureRequest) (Settings, Problems) {
	out := Settings{
		Config: req.GetConfig(), Secrets: map[string]string{}, Instance: req.GetInstance(),
		Generation: req.GetGeneration(), Log: s.log.With("instance", req.GetInstance()),
	}
	if len(out.Config) == 0 {
		out.Config = json.RawMessage("{}")
	}
	var problems Problems
	var doc exact.Doc
	if p := readObject(&doc, out.Config); p != nil {
		problems = append(problems, *p)
	} else if s.parts.info.ConfigSchema == "" && doc.Root().Len() > 0 {
		problems = append(problems, Problem{Message: "the plugin takes no settings: its ConfigSchema is empty"})
	}
	given := req.GetSecrets()
	for _, want := range s.parts.info.Secrets {
		path, ok := given[want.Name]
		if !ok {
			if want.Required {
				problems = append(problems, Problem{"secrets." + want.Name, "this secret is required"})
			}
			continue
		}
		value, err := readSecret(path)
		switch {
		case err != nil:
			problems = append(problems, Problem{"secrets." + want.Name, err.Error()})
		case value == "" && want.Required:
			problems = append(problems, Problem{"secrets." + want.Name, "this secret is required, and its file is empty"})
		default:
			out.Secrets[want.Name] = value
		}
	}
	for name := range given {
		if !slices.ContainsFunc(s.parts.info.Secrets, func(k Secret) bool { return k.Name == name }) {
			problems = append(problems, Problem{"secrets." + name, "the plugin takes no secret of this name"})
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	return out, problems
}

// readSecret reads a whole file and takes one newline off its end. Its errors say nothing of the content.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("its file cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("its file is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("its file cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("its file cannot be read: %w", err)
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("its file is longer than %d bytes", maxSecret)
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// asProblems gives the problems that an error of Validate or Configure names. ok is false when it names none.
func asProblems(err error) (out Problems, ok bool) {
	var one Problem
	switch {
	case errors.As(err, &out) && len(out) == 0:
		return Problems{{Message: "refused without a reason"}}, true
	case len(out) > 0:
		return out, true
	case errors.As(err, &one):
		return Problems{one}, true
	}
	return nil, false
}

// wire makes what goes over the wire.
func (p Problems) wire() (out []*pluginv1.Problem) {
	for i, one := range p {
		if i == maxProblems-1 && len(p) > maxProblems {
			return append(out, &pluginv1.Problem{Message: fmt.Sprintf("and %d more", len(p)-i)})
		}
		out = append(out, &pluginv1.Problem{Field: clip(one.Field), Message: clip(one.Message)})
	}
	return out
}

// clip makes text fit for the wire: valid UTF-8 of at most maxLine bytes, without the word that is cut, of which the
// host would not see that it is a part of a secret. It is for texts about errors only; what an answer says is refused
// when it is too long.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxLine {
		return text
	}
	const cut = "(cut)"
	text = text[:maxLine-len(cut)]
	return text[:strings.LastIndexAny(text, " \t\r\n")+1] + cut
}
