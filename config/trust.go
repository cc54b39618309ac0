package config

import (
	"maps"
	"regexp"
	"slices"

	"github.com/yett-dev/yett/config/strict"
)

// Trust says whose signatures on modules count.
type Trust struct {
	Keys             map[string]TrustKey `koanf:"keys" doc:"Public keys by name. A module FILE.wasm is signed by FILE.wasm.minisig beside it."`
	RequireSignature bool                `koanf:"require_signature" default:"false" doc:"Whether a module file without a signature by one of the keys is refused."`
}

// TrustKey is one public key.
type TrustKey struct {
	Minisign string `koanf:"minisign" req:"true" format:"minisign" example:"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3" doc:"The key as minisign -G prints it."`
	Own      bool   `koanf:"own" default:"false" doc:"Whether it is our own key: modules that it signed run in the server itself unless their sandbox says otherwise. Those of other keys run in a process."`
}

// Forms are those of the texts here.
func (TrustKey) Forms() map[string]strict.Form {
	return map[string]strict.Form{"minisign": {Pattern: publicForm.String(), Check: func(s string) error {
		return strict.Matches(publicForm, s, "a minisign public key: the 56 characters that begin with RW")
	}}}
}

var publicForm = regexp.MustCompile(`^RW[A-Za-z0-9+/]{54}$`)

func (t *Trust) validate(r *strict.Report) {
	if t.RequireSignature && len(t.Keys) == 0 {
		r.Errorf("trust.require_signature", "is true, and trust.keys names no key that could sign")
	}
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Keys)) {
		key := t.Keys[name].Minisign
		if other, twice := first[key]; twice && key != "" {
			r.Errorf(strict.Join(strict.Join("trust.keys", name), "minisign"), "is the key of %s too", strict.Literal(other))
		}
		first[key] = name
	}
}
