package model

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxNested is how deep JSON inside JSON strings is read. Arguments of calls and results in them make three.
const maxNested = 8

// holds says whether text is in raw, or in any string of the JSON that raw is, decoded.
func holds(raw []byte, text string) bool {
	return bytes.Contains(raw, []byte(text)) || holdsDecoded(raw, text, maxNested)
}

func holdsDecoded(raw []byte, text string, depth int) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return false // what is not JSON was searched as bytes
		}
		s, ok := token.(string)
		if !ok {
			continue
		}
		if strings.Contains(s, text) {
			return true
		}
		if depth > 0 && mayBeJSON(s) && holdsDecoded([]byte(s), text, depth-1) {
			return true
		}
	}
}

// mayBeJSON spares decoding for strings without an escape: their bytes were searched already.
func mayBeJSON(s string) bool {
	rest := strings.TrimLeft(s, " \t\r\n")
	return rest != "" && strings.ContainsRune(`{["`, rune(rest[0])) && strings.Contains(s, `\`)
}
