package signedhttp

// The names of the secrets that a plugin which posts to one endpoint is given.
const (
	SecretSigning       = "signing"
	SecretSigningOther  = "signing_other" // while the service moves from one to the other
	SecretAuthorization = "authorization"
)

// Secrets reads those of the secrets that are given under names, in this order. wrong is told of what cannot be read.
func Secrets(given map[string]string, wrong func(field, message string), names ...string) (list []Secret) {
	for _, name := range names {
		text, ok := given[name]
		if !ok {
			continue
		}
		s, err := ParseSecret(text)
		if err != nil {
			wrong("secrets."+name, err.Error())
		}
		list = append(list, s)
	}
	return list
}

// Signing reads the secrets that sign requests. Without SecretSigning only unsigned requests are sent, which the
// settings must say; a demo sends none.
func Signing(given map[string]string, unsigned, demo bool, wrong func(field, message string)) []Secret {
	list := Secrets(given, wrong, SecretSigning, SecretSigningOther)
	_, signed := given[SecretSigning]
	switch {
	case unsigned && len(list) > 0:
		wrong("/unsigned", "not allowed with signing secret")
	case !unsigned && !demo && !signed:
		wrong("secrets."+SecretSigning, "this secret is required, or set unsigned: true")
	}
	return list
}

// Authorization reads the value of the header of that name, "" for none.
func Authorization(given map[string]string, wrong func(field, message string)) string {
	text, ok := given[SecretAuthorization]
	if ok {
		if why := CheckHeader(text); why != "" {
			wrong("secrets."+SecretAuthorization, why)
		}
	}
	return text
}
