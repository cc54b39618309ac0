package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestHookArguments holds that no argument beside an agent ends in status 0, which agents take for consent.
func TestHookArguments(t *testing.T) {
	for line, want := range map[string]int{
		"--help":                             0,
		"-h":                                 0,
		"":                                   2,
		"claude-code":                        2,
		"claude-code --help":                 2,
		"claude-code --config /none --help":  2,
		"--help claude-code":                 2,
		"claude-code -h --config /none":      2,
		"claude-code --version":              2,
		"claude-code --config /none -o json": 2,
		"nobody --config /none":              2,
	} {
		var out, errs bytes.Buffer
		args := append([]string{"hook"}, strings.Fields(line)...)
		code := run(context.Background(), args, strings.NewReader("{}"), &out, &errs)
		if code != want || (code == 2) != (errs.Len() > 0) {
			t.Errorf("yett hook %s: %d, %s, %s", line, code, out.String(), errs.String())
		}
	}
}
