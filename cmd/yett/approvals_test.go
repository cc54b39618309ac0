package main

import (
	"encoding/json"
	"testing"
)

// What could not be masked is said beside the args, where an approver looks.
func TestListedArgsSayWhatIsWithheld(t *testing.T) {
	for call, want := range map[string]string{
		`{"args":{"a":1}}`: `{"a":1}`,
		`{}`:               `{}`,
		`{"args":{"withheld":"timeout","scanner":"s"},"args_withheld":{"cause":"timeout","scanner":"s"}}`: `{"withheld":"timeout","scanner":"s"} (args withheld: timeout, scanner s)`,
		`{"args":{"a":1},"context_withheld":{"cause":"api_key"}}`:                                         `{"a":1} (context withheld: api_key)`,
	} {
		if got := argsOf(json.RawMessage(call)); got != want {
			t.Errorf("%s is listed as %s, want %s", call, got, want)
		}
	}
}
