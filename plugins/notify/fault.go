package main

import (
	"errors"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
)

// errLetter is a mail that cannot be written, or that the server refuses after it has seen all of it.
type errLetter struct{ err error }

func (e *errLetter) Error() string { return e.err.Error() }
func (e *errLetter) Unwrap() error { return e.err }

// slackContent are errors of Slack's about what is in a message.
var slackContent = map[string]bool{"msg_too_long": true, "no_text": true, "invalid_arguments": true,
	"invalid_blocks": true}

// ofContent says whether a message is refused for what is in it, so that the same one will never be taken. What passes,
// and what the operator has to mend (a channel, a password, a URL), is no such failure: the next message would fail as
// well.
func ofContent(err error) bool {
	var unready *signedhttp.Unready
	var refused *signedhttp.Refused
	var slack *errSlack
	var letter *errLetter
	switch {
	case errors.As(err, &unready):
		return false
	case errors.As(err, &refused):
		return refused.OfContent()
	case errors.As(err, &slack):
		return slackContent[slack.code]
	}
	return errors.As(err, &letter)
}
