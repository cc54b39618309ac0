package shell

import (
	"errors"
	"strings"
	"unicode"
)

// ErrPatch says that a text is no patch that is understood.
var ErrPatch = errors.New("not a patch")

const (
	maxPatch      = 1 << 20 // bytes
	maxPatchFiles = 1_000
)

// PatchFiles gives the files that a patch in the form of apply_patch names, in order. There may be more than it
// changes: a line of content that looks like a header counts as one.
func PatchFiles(text string) ([]string, error) {
	if len(text) > maxPatch {
		return nil, ErrPatch
	}
	var files []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		header, ok := strings.CutPrefix(strings.TrimFunc(line, unicode.IsSpace), "***")
		if !ok {
			continue
		}
		kind, name, named := strings.Cut(header, ":")
		switch kind {
		case " Begin Patch", " End Patch", " End of File":
			if named {
				return nil, ErrPatch
			}
			continue
		case " Add File", " Update File", " Delete File", " Move to":
		default:
			return nil, ErrPatch
		}
		if name = strings.TrimFunc(name, unicode.IsSpace); name == "" || len(files) == maxPatchFiles {
			return nil, ErrPatch
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return nil, ErrPatch
	}
	return files, nil
}
