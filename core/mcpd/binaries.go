package mcpd

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/exact"
)

// binaries are the parts of a value that are no text: images, sounds and blobs, in base64. They are not scanned as the
// text that they are not.
type binaries struct {
	edits []edit   // takes each out
	paths [][]int  // where each stands: the numbers of members and elements from the root
	raws  []string // what each was
	texts []string // blobs that are text in truth
}

// mostTexts bounds the blobs that are scanned with one result.
const mostTexts = 255

// find looks for binaries where MCP has them. Structured content has none: it is text for the model.
func (b *binaries) find(v exact.Value, path []int, structured bool, set policy) error {
	switch v.Kind() {
	case exact.Array:
		i := 0
		for e := range v.Elements() {
			if err := b.find(e, append(path, i), structured, set); err != nil {
				return err
			}
			i++
		}
	case exact.Object:
		kind := v.Get("type").Str()
		media := (kind == "image" || kind == "audio") && v.Get("mimeType").Kind() == exact.String && !structured
		resource := v.Get("uri").Kind() == exact.String && !structured
		i := 0
		for name, e := range v.Members() {
			at := append(path, i)
			i++
			var err error
			switch {
			case e.Kind() == exact.String && name == "data" && media:
				err = b.add(e, at, set, kind)
			case e.Kind() == exact.String && name == "blob" && resource:
				err = b.add(e, at, set, name)
			default:
				err = b.find(e, at, structured || name == "structuredContent", set)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *binaries) add(v exact.Value, path []int, set policy, kind string) error {
	do := set.BinaryPolicy(kind)
	if do == "deny" {
		return errBinary
	}
	raw, err := base64.StdEncoding.DecodeString(v.Str())
	if err != nil { // no base64, so it is scanned as the text that it is, and as what others read there
		if text, ok := textOf(leniently(v.Str())); ok {
			return b.also(text)
		}
		return nil
	}
	if text, ok := textOf(raw); ok && (do == "scan" || kind != "blob") {
		if err := b.also(text); err != nil {
			return err
		}
	}
	if len(v.Str()) <= mostWord {
		return nil
	}
	b.edits = append(b.edits, replace(v, `""`))
	b.paths = append(b.paths, append([]int(nil), path...))
	b.raws = append(b.raws, v.Raw())
	return nil
}

// mostWord is up to where base64 may be a key or a word in truth, so that it is scanned as text too, bytes.
const mostWord = 256

// also has a text scanned beside the value.
func (b *binaries) also(text string) error {
	if len(b.texts) == mostTexts {
		return errBinary
	}
	b.texts = append(b.texts, text)
	return nil
}

// leniently decodes base64 as programs do that skip every other sign, and take that of addresses too.
func leniently(text string) []byte {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '-':
			return '+'
		case r == '_':
			return '/'
		case r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '+' || r == '/':
			return r
		}
		return -1
	}, text)
	if len(text)%4 == 1 {
		text = text[:len(text)-1]
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil // cannot be: no other sign is left
	}
	return raw
}

// textOf gives bytes as the text that a person could read there: UTF-8, or UTF-16. Some bytes that fit neither do not
// make it less of a text.
func textOf(raw []byte) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	text, wide := wideText(raw)
	if !wide {
		readable := 0
		for _, c := range raw {
			if c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t' {
				readable++
			}
		}
		if !utf8.Valid(raw) && readable < len(raw)/10*9 {
			return "", false
		}
		text = strings.ToValidUTF8(string(raw), "\ufffd")
	}
	return strings.ReplaceAll(text, "\x00", "\u2400"), true
}

// wideText reads UTF-16: with its mark, or where every other byte is zero.
func wideText(raw []byte) (string, bool) {
	var order binary.ByteOrder
	zeros := [2]int{}
	for i, c := range raw {
		if c == 0 {
			zeros[i&1]++
		}
	}
	switch half := len(raw) / 2; {
	case half == 0:
		return "", false
	case raw[0] == 0xff && raw[1] == 0xfe || zeros[1] > half*3/4 && zeros[0] < half/4+1:
		order = binary.LittleEndian
	case raw[0] == 0xfe && raw[1] == 0xff || zeros[0] > half*3/4 && zeros[1] < half/4+1:
		order = binary.BigEndian
	default:
		return "", false
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	return string(utf16.Decode(units)), true
}

// policy says what becomes of binaries. *config.MCP has it.
type policy interface{ BinaryPolicy(kind string) string }

// put gives what is left of a value with the binaries back in their places.
func (b *binaries) put(raw, outcome string, clean json.RawMessage, lim exact.Limits) (string, verdict, error) {
	switch outcome {
	case outcomePass, outcomeWarned:
		return raw, passedOn, nil
	case outcomeRedacted:
	default:
		return "", withheld, nil
	}
	if len(clean) == 0 {
		return "", withheld, errors.New("the scan redacted the output and gave none")
	}
	if len(b.paths) == 0 {
		return string(clean), passedOn, nil
	}
	var doc exact.Doc
	if err := doc.Parse(string(clean), lim); err != nil {
		return "", withheld, err
	}
	edits := b.places(doc.Root(), 0, nil)
	if len(edits) != len(b.paths) {
		return "", withheld, errors.New("the redacted output has another shape")
	}
	return apply(string(clean), edits), passedOn, nil
}

// places finds the binaries in a value of the shape of the one in which they were found. b.paths is in the order of the
// text; edits are those of the first of them.
func (b *binaries) places(v exact.Value, depth int, edits []edit) []edit {
	if len(edits) == len(b.paths) {
		return edits
	}
	if path := b.paths[len(edits)]; len(path) == depth {
		if v.Raw() != `""` {
			return edits
		}
		return append(edits, replace(v, b.raws[len(edits)]))
	}
	prefix := b.paths[len(edits)][:depth]
	below := func(i int, e exact.Value) bool {
		for len(edits) < len(b.paths) {
			path := b.paths[len(edits)]
			if len(path) <= depth || !slices.Equal(path[:depth], prefix) || path[depth] != i {
				return len(path) > depth && slices.Equal(path[:depth], prefix)
			}
			before := len(edits)
			if edits = b.places(e, depth+1, edits); len(edits) == before {
				return false
			}
		}
		return false
	}
	i := 0
	switch v.Kind() {
	case exact.Array:
		for e := range v.Elements() {
			if !below(i, e) {
				break
			}
			i++
		}
	case exact.Object:
		for _, e := range v.Members() {
			if !below(i, e) {
				break
			}
			i++
		}
	}
	return edits
}
