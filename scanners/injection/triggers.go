package main

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/scanner"
)

// What a trigger leads to.
type job uint8

const (
	jobText    job = iota // the segment around it is read
	jobMark               // a mark of a chat format: marks.go
	jobLink               // an image or a link: links.go
	jobHidden             // code points that show nothing: hidden.go
	jobBase64             // encoded.go
	jobHex                //
	jobPercent            //
	jobRot13              //
	jobReverse            //
	jobEntity             //
	jobSpaced             //
	jobEnd                // how many there are
)

// engine is what init makes of the tables: for each trigger its job.
type engine struct {
	triggers []scanner.Trigger
	jobs     []job
	known    map[scanner.Trigger]bool
	marks    int // the trigger of the first mark
}

func (e *engine) markOf(trigger int) *mark { return &marks[trigger-e.marks] }

func newEngine() *engine {
	e := &engine{known: map[scanner.Trigger]bool{}}
	for _, word := range strings.Fields(textTriggers) {
		e.fold(strings.ReplaceAll(word, "_", " "), jobText)
	}
	var list []string
	for _, w := range words {
		if w.concept&triggering != 0 {
			list = append(list, strings.Fields(w.list)...)
		}
	}
	// Short ones first: a longer word that holds one needs no trigger of its own.
	slices.SortStableFunc(list, func(a, b string) int { return len(a) - len(b) })
	for _, word := range list {
		word = strings.ReplaceAll(strings.TrimSuffix(word, "*"), "_", " ")
		if !e.covered(word) {
			e.fold(word, jobText)
		}
	}
	e.marks = len(e.triggers)
	for _, m := range marks {
		e.add(scanner.Trigger{Literal: m.text, Fold: true}, jobMark)
	}
	for _, l := range []string{"](http", "](//", "<img", "src=\"http", "src='http"} {
		e.add(scanner.Trigger{Literal: l, Fold: true}, jobLink)
	}
	for _, r := range hiddenTriggers() {
		e.add(scanner.Trigger{Literal: string(r)}, jobHidden)
	}
	e.lookalikes()
	e.encoded()
	return e
}

// fold adds a word in both cases, whatever its script.
func (e *engine) fold(word string, j job) {
	low := strings.ToLower(word)
	e.add(scanner.Trigger{Literal: low, Fold: true}, j)
	ascii := true
	for _, r := range low {
		ascii = ascii && r < 0x80
	}
	if ascii {
		return
	}
	if !strings.Contains(low, " ") {
		e.add(scanner.Trigger{Literal: strings.ToUpper(low), Fold: true}, j)
	}
	for i, r := range low {
		if i == 0 && r >= 0x80 && unicode.ToUpper(r) != r {
			e.add(scanner.Trigger{Literal: string(unicode.ToUpper(r)) + low[len(string(r)):], Fold: true}, j)
		}
	}
}

// maxTrigger bounds a trigger, bytes: what its beginning leads to is read anyway, and the host's tables stay small.
const maxTrigger = 14

func short(s string) string {
	if len(s) <= maxTrigger {
		return s
	}
	n := maxTrigger
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// covered tells whether a trigger that is there already occurs in the word.
func (e *engine) covered(word string) bool {
	word = strings.ToLower(word)
	for i, t := range e.triggers {
		if e.jobs[i] == jobText && strings.Contains(word, t.Literal) {
			return true
		}
	}
	return false
}

func (e *engine) add(t scanner.Trigger, j job) {
	if j != jobMark && j != jobHidden {
		t.Literal = short(t.Literal)
	}
	if e.known[t] {
		return
	}
	e.known[t] = true
	e.triggers = append(e.triggers, t)
	e.jobs = append(e.jobs, j)
}

// triggering are the concepts whose words are worth a look by themselves.
const triggering = cIgnore | cSysPrompt | cPersona | cNamed | cBreak | cExtract | cStrict | cReply | cConceal |
	cOrder | cDone | cOverride | cSecret | cRole

// textTriggers are parts of many words of the lexicon, so that those need none of their own.
const textTriggers = "ignor disregard forget overrid instruction prompt jailbreak password pretend secret" +
	" confidential roleplay role_play act_as act_like from_now_on you_are you_must" +
	" unrestricted unfiltered uncensored chatgpt openai language_model restriction" +
	" credential api_key developer_mode imagine hypothetical exfiltrat conversation_h" +
	" chat_hist"

// lookalikes adds what gives away a word that mixes Latin letters with those of another script, and letters of the
// alphabets for mathematics and full width.
func (e *engine) lookalikes() {
	like := map[byte][]rune{}
	var from rune
	for i, r := range lookalikes {
		if r >= 0x80 {
			from = r
		} else if i < usualLookalikes {
			like[byte(r)] = append(like[byte(r)], from)
		}
	}
	for _, word := range telling {
		for i := range len(word) {
			for _, r := range like[word[i]] {
				if i > 0 && word[i-1] != ' ' {
					e.add(scanner.Trigger{Literal: word[i-1:i] + string(r), Fold: true}, jobText)
				}
				if i+1 < len(word) && word[i+1] != ' ' {
					e.add(scanner.Trigger{Literal: string(r) + word[i+1:i+2], Fold: true}, jobText)
				}
			}
		}
	}
	// Of other alphabets two letters are enough: each telling word has one of them.
	for alphabet := rune(0x1d400); alphabet < 0x1d6a4; alphabet += 26 {
		e.add(scanner.Trigger{Literal: string(alphabet + 'e' - 'a')}, jobText)
		e.add(scanner.Trigger{Literal: string(alphabet + 'r' - 'a')}, jobText)
	}
	for _, r := range "ｅｒＥＲⓔⓡⒺⓇ🄴🅁🅔🅡🅴🆁ᴇʀ" {
		e.add(scanner.Trigger{Literal: string(r)}, jobText)
	}
	for _, word := range []string{"ignore", "prompt", "system", "instruct", "reveal", "secret", "password",
		"previous"} {
		for i := range len(word) {
			for _, accented := range accents[word[i]] {
				e.add(scanner.Trigger{Literal: word[max(0, i-2):i] + string(accented) + word[i+1:i+2],
					Fold: true}, jobText)
			}
			if indexByte("aeiou", word[i]) >= 0 {
				break
			}
		}
	}
	for _, word := range []string{"1gn", "ign0r", "pr0mp", "pr3v", "1nst", "1n57", "5y5", "syst3m", "d1sr",
		"f0rg", "p4ss", "r3v", "j4ilb", "s3cr", "53cr"} {
		e.add(scanner.Trigger{Literal: word, Fold: true}, jobText)
	}
}

var accents = map[byte]string{'a': "áàäâãå", 'e': "éèëê", 'i': "íìïîı", 'o': "óòöôõ", 'u': "úùüû"}

func indexByte(s string, c byte) int { return strings.IndexByte(s, c) }
