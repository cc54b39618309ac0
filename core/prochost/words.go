package prochost

// Spoken is an error with what the plugin itself said: its last line on stderr, or why it does not serve. Error does not quote it:
// errors reach agents, the log and whoever asks for /readyz, and a plugin may say more than they are to see.
type Spoken struct {
	Err   error
	Words string
}

func (e *Spoken) Error() string { return e.Err.Error() }
func (e *Spoken) Unwrap() error { return e.Err }

// Words are what plugins said, in an error or what it wraps, for operators. None is nil.
func Words(err error) (all []string) {
	switch e := err.(type) {
	case *Spoken:
		if e.Words != "" {
			all = append(all, e.Words)
		}
		all = append(all, Words(e.Err)...)
	case interface{ Unwrap() error }:
		all = append(all, Words(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, Words(inner)...)
		}
	}
	return all
}
