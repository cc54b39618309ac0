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
	for line := range strings.FieldsFuncSeq(text, isLineEnd) {
		header, ok := strings.CutPrefix(strings.TrimFunc(line, isBlank), "***")
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
		if name = strings.TrimFunc(name, isBlank); name == "" || len(files) == maxPatchFiles {
			return nil, ErrPatch
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return nil, ErrPatch
	}
	return files, nil
}

// isBlank reports whether a reader of patches may leave a character out at the ends of a line.
func isBlank(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }

// isLineEnd reports whether a line may end at a character.
func isLineEnd(r rune) bool { return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r) }
