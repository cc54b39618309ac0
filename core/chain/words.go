package chain

import (
	"strings"
)

// Spoken is an error with what a plugin itself said: why a check failed, its last line on stderr, why it does not
// serve. Error does not quote it: errors reach agents and whoever asks for /readyz, and a plugin may say more than they
// are to see, such as where its database is.
type Spoken struct {
	Err   error
	Words string
}

func (e *Spoken) Error() string { return e.Err.Error() }
func (e *Spoken) Unwrap() error { return e.Err }

// Words are what plugins said, in an error or what it wraps, "" for nothing. They are for operators: the audit log, the
// console and the command line.
func Words(err error) string { return strings.Join(words(err), "; ") }

func words(err error) (all []string) {
	switch e := err.(type) {
	case *hushed:
		if e.words != "" {
			all = append(all, e.words)
		}
	case *veiled:
		if e.words != "" {
			all = append(all, e.words)
		}
	case *Spoken:
		if e.Words != "" {
			all = append(all, e.Words)
		}
		all = append(all, words(e.Err)...)
	case interface{ Unwrap() error }:
		all = append(all, words(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, words(inner)...)
		}
	}
	return all
}

// WithWords is a reason with what a plugin said of it: for operators, and for nobody else.
func WithWords(why, words string) string {
	switch {
	case words == "":
		return why
	case why == "":
		return "it says: " + words
	}
	return why + "; it says: " + words
}
