package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/yett-dev/yett/core/quote"
)

// SchemaError is a fault of the JSON Schema that a module or a plugin declares for its settings.
type SchemaError struct {
	Place  string // a JSON Pointer such as #/properties/words; "" for the schema as a whole
	Reason string
}

func (e *SchemaError) Error() string {
	at := ""
	if e.Place != "" {
		at = " at " + e.Place
	}
	return "config_schema is invalid" + at + ": " + e.Reason + "; the schema itself must change, no settings can mend it"
}

// SchemaPlace tells this error from one about settings, for those who cannot import this package.
func (e *SchemaError) SchemaPlace() string { return e.Place }

// Bounds of what a message quotes: the schema's author is not trusted.
const (
	maxQuotedPlace  = 200
	maxQuotedReason = 600
)

func schemaError(at *schemaPlace, format string, args ...any) error {
	return &SchemaError{quote.Short(at.String(), maxQuotedPlace),
		quote.Short(fmt.Sprintf(format, args...), maxQuotedReason)}
}

// schemaPlace is where something stands in a schema; nil is the schema as a whole.
type schemaPlace struct {
	above *schemaPlace
	key   string
}

func (p *schemaPlace) below(key string) *schemaPlace { return &schemaPlace{p, key} }

func (p *schemaPlace) String() string {
	if p == nil {
		return ""
	}
	begin := p.above.String()
	if begin == "" {
		begin = "#"
	}
	return begin + "/" + pointerEscapes.Replace(p.key)
}

var (
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
	pointerMeans   = strings.NewReplacer("~0", "~", "~1", "/")
)

// libraryFault says in our words, and with the place in the schema, why the library refused a schema.
func libraryFault(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var causes *jsonschema.ValidationError
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &causes) {
		return schemaError(nil, "%v", err)
	}
	base := placeOf(invalid.URL)
	var all []string
	var first *schemaPlace
	for _, leaf := range leaves(causes) {
		at := base
		for _, part := range leaf.InstanceLocation {
			at = at.below(part)
		}
		reason := expected(leaf.ErrorKind)
		if k, is := leaf.ErrorKind.(*kind.ExclusiveMinimum); is && k.Got.Sign() == 0 {
			reason += " (a number too small for 64 bits is read as 0)"
		}
		switch {
		case len(all) == 0:
			first = at
		case at.String() != first.String():
			reason = quote.Short(at.String(), maxQuotedPlace) + ": " + reason
		}
		if all = append(all, reason); len(all) == maxMisfits {
			break
		}
	}
	return schemaError(first, "%s", strings.Join(all, "; "))
}

// placeOf is the place that an address of the library leads to.
func placeOf(address string) (at *schemaPlace) {
	_, pointer, _ := strings.Cut(address, "#")
	if text, err := url.PathUnescape(pointer); err == nil {
		pointer = text
	}
	for _, part := range strings.Split(pointer, "/")[1:] {
		at = at.below(pointerMeans.Replace(part))
	}
	return at
}
