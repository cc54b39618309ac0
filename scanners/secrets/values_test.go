package main

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// What the notation of the cases cannot hold: values with brackets, which are no templates.
func TestValuesWithBrackets(t *testing.T) {
	r := runner(t, "")
	odd := "q{{h}o)p${e]" + sampleOf("<c:4>", 1) + "nq(q[z>-_$#q}}"
	nested := `{\"name\": \"root\", \"sig\": \"` + sampleOf("<a:4>3x9q4<a:20>", 1) + `\"}`
	for format, value := range map[string]string{`db_password = "%s"`: odd, `"Apitoken": "%s",`: nested} {
		text := fmt.Sprintf(format, value)
		at := strings.Index(text, value)
		if found := scanFor(t, r, text); len(found) != 1 || found[0].Start != at || found[0].End != at+len(value) {
			t.Errorf("%s: %+v", text, found)
		}
	}
	for _, text := range []string{`db_password = "${db_password!x#y}"`, `db_password = "{{ vault.db(1) | x }}"`,
		`db_password = "%(password)s"`, `db_password = "<%= @password %>"`, `db_password = "#{ENV['DB']}"`} {
		if found := scanFor(t, r, text); len(found) > 0 {
			t.Errorf("%s: %+v", text, found)
		}
	}
}

// withCRC makes the last six characters of a text the checksum of those from an offset on.
func withCRC(text string, from int) string {
	body := text[:len(text)-6]
	sum, tail := crc32.ChecksumIEEE([]byte(body[from:])), make([]byte, 6)
	for i := 5; i >= 0; i-- {
		tail[i] = base62[sum%62]
		sum /= 62
	}
	return body + string(tail)
}

// What has a checksum keeps its severity where that holds, and is low where not.
func TestChecksums(t *testing.T) {
	r := runner(t, "")
	for name, value := range map[string]string{
		"GITHUB_PAT":       withCRC(sampleOf("gh"+"p_<w:36>", 1), 4),
		"GITHUB_APP_TOKEN": withCRC(sampleOf("gh"+"s_<w:36>", 2), 4),
		"NPM_TOKEN":        withCRC(sampleOf("np"+"m_<w:36>", 3), 4),
		"YETT_API_KEY":     withCRC(sampleOf("ye"+"tt_<w:12>_<w:49>", 4), 0),
	} {
		whole := scanFor(t, r, "see "+value)
		if len(whole) != 1 || whole[0].Kind != "SECRET_"+name || whole[0].Severity != sdk.Critical {
			t.Errorf("%s: %+v", name, whole)
		}
		last := byte('a')
		if value[len(value)-1] == last {
			last = 'b'
		}
		broken := scanFor(t, r, "see "+value[:len(value)-1]+string(last))
		if len(broken) != 1 || broken[0].Severity != sdk.Critical || broken[0].Confidence >= 0.5 {
			t.Errorf("%s with a wrong checksum: %+v", name, broken)
		}
	}
}

// Bech32 and CRC16 against values that others publish, whole and with one character changed.
func TestChecksumsOfOthers(t *testing.T) {
	age := "AGE-SECRET-KEY-1" + "GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
	if !wholeBech32([]byte(age)) || wholeBech32([]byte(age[:20]+"Q"+age[21:])) {
		t.Error("the checksum of an age key is not told from a wrong one")
	}
	seed := "SU" + "AKYRHVIOREXV7EUZTBHUHL7NUMHPMAS7QMDU3GTIUWEI5LDNOXD43IZY"
	if !wholeSeed([]byte(seed)) || wholeSeed([]byte(seed[:20]+"A"+seed[21:])) {
		t.Error("the checksum of a NATS seed is not told from a wrong one")
	}
	if published := "np" + "m_qkJaB6MffYVzZXWqmcoF49yrUxP3wf0LsakP"; !crcBehind([]byte(published), 4, 40) {
		t.Error("npm's published sample has a wrong checksum")
	}
}

// A documented example is low, and left in place.
func TestDocumentedExamples(t *testing.T) {
	r := runner(t, "")
	for _, value := range []string{"AKIAIOSFODNN7" + "EXAMPLE", "sk_" + "test_4eC39HqLyjWDarjtT1zdP7dc"} {
		found := scanFor(t, r, "key = "+value)
		if len(found) != 1 || found[0].Kind != "SECRET_DOCUMENTED_EXAMPLE" || found[0].Severity != sdk.Low ||
			found[0].Suggested != sdk.Flag {
			t.Errorf("%+v", found)
		}
	}
}

// Brackets without quotes are code, unless they do not match.
func TestLooseValues(t *testing.T) {
	r := runner(t, "")
	value := "q{h" + sampleOf("<w:4>", 2) + ")p$e]nob(x[z>-#Q7"
	text := "DB_PASSWORD=" + value + "\nnext"
	if found := scanFor(t, r, text); len(found) != 1 || found[0].Start != 12 || found[0].End != 12+len(value) {
		t.Errorf("%s: %+v", text, found)
	}
}
