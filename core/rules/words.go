package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/quote"
)

var (
	notToken   = regexp.MustCompile(`^token recognition error at: '(.*)'$`)
	notHere    = regexp.MustCompile(`^(?:mismatched|extraneous) input '(.*?)' expecting`)
	noWay      = regexp.MustCompile(`^(?:no viable alternative at input|missing .* at) '(.*)'$`)
	unknown    = regexp.MustCompile(`^undeclared reference to '(.*)'$`)
	noOverload = regexp.MustCompile(`^found no matching overload for '(.*?)' applied to '(.*)'$`)
	operator   = regexp.MustCompile(`^(!?)_([^_a-z]+)_$`)
)

// written are the operators that people write who know other languages, and what CEL has for them.
var written = map[string]string{
	"=": "==", "&": "&&", "|": "||", "and": "&&", "AND": "&&", "or": "||", "OR": "||", "not": "!", "NOT": "!", "<>": "!=",
	"===": "==", "is": "==", "True": "true", "False": "false", "None": "null", "nil": "null",
}

// syntaxWords says what is wrong with the form of a condition.
func syntaxWords(msg string) string {
	if m := notToken.FindStringSubmatch(msg); m != nil {
		first := strings.TrimSpace(m[1])
		for _, op := range []string{"=", "&", "|"} {
			if strings.HasPrefix(first, op) {
				return fmt.Sprintf("%s is no operator; write %s", op, written[op])
			}
		}
		if strings.HasPrefix(first, `"`) || strings.HasPrefix(first, "'") {
			return "a text has no closing quote"
		}
		return fmt.Sprintf("%s cannot stand here", quote.Literal(first, 40))
	}
	for _, form := range []*regexp.Regexp{notHere, noWay} {
		m := form.FindStringSubmatch(msg)
		if m == nil {
			continue
		}
		word := m[1]
		if word == "<EOF>" {
			return "the condition ends too early: a value or a closing bracket is missing"
		}
		if op := written[word]; op != "" {
			return fmt.Sprintf("%s is no operator; write %s", word, op)
		}
		return fmt.Sprintf("%s cannot stand here", quote.Literal(word, 40))
	}
	return msg
}

// typeWords says what is wrong with the names and types in a condition.
func typeWords(msg string) string {
	if m := unknown.FindStringSubmatch(msg); m != nil {
		name := m[1]
		switch {
		case written[name] != "":
			return fmt.Sprintf("unknown name %s; write %s", quote.Literal(name, 40), written[name])
		case isVariable(name):
			return msg
		}
		return fmt.Sprintf("unknown name or function %s: a condition knows %s; a call's arguments are args.NAME",
			quote.Literal(name, 40), strings.Join(variables, ", "))
	}
	m := noOverload.FindStringSubmatch(msg)
	if m == nil {
		return msg
	}
	name, types := m[1], strings.Trim(m[2], "()")
	if op := operator.FindStringSubmatch(name); op != nil {
		name = op[2]
	}
	name = strings.TrimPrefix(name, "@")
	list := strings.Split(types, ", ")
	if i := slices.Index(list, "decimal"); i >= 0 {
		list[i] = "number"
	}
	return fmt.Sprintf("%s does not take %s", name, strings.Join(list, " and "))
}
