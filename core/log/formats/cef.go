package formats

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// cefSeverities are CEF's: 0 to 3 is low, 4 to 6 medium, 7 and 8 high, 9 and 10 very high.
var cefSeverities = [...]string{unrated: "0", info: "1", low: "3", medium: "5", high: "8", critical: "10"}

var cefOutcomes = [...]string{success: "success", failure: "failure", pending: "pending"}

// cefLabelled are members of records in the custom strings of CEF's dictionary.
var cefLabelled = []struct{ key, member, label string }{
	{"cs1", "agent_id", "agentId"}, {"cs2", "tool_id", "toolId"}, {"cs3", "rule_id", "ruleId"},
	{"cs4", "decision_id", "decisionId"}, {"cs5", "defer_token", "deferToken"}, {"cs6", "grant_id", "grantId"},
}

// cefOwn are members for which CEF's dictionary has no key. Names of keys that are not in it begin with the product.
var cefOwn = []struct{ key, member string }{
	{"yettScanId", "scan_id"}, {"yettActionId", "action_id"}, {"yettKeyId", "key_id"}, {"yettCallId", "call_id"},
	{"yettSessionId", "session_id"}, {"yettMethod", "principal_method"}, {"yettSurface", "surface"},
	{"yettScope", "scope"}, {"yettTarget", "target"}, {"yettToolPattern", "tool_pattern"}, {"yettWhat", "what"},
	{"yettPlugin", "plugin"}, {"yettSubscriber", "subscriber"}, {"yettFirstSeq", "first_seq"},
	{"yettLastSeq", "last_seq"}, {"yettSeqs", "seqs"}, {"yettPolicyVersion", "policy_version"}, {"yettDryRun", "dry_run"},
}

// cefLine is a CEF:0 event without a syslog header. The type of the record is its signature id. The version of the
// device is that of the record's format, since a record does not say which version of the gateway has written it.
func cefLine(dst []byte, r *record) []byte {
	k := r.kind()
	dst = append(dst, "CEF:0|Yett|Yett|"...)
	dst = cefHeader(dst, r.text("v"))
	dst = append(dst, '|')
	dst = cefHeader(dst, r.typ)
	dst = append(dst, '|')
	dst = cefHeader(dst, k.title)
	dst = append(dst, '|')
	dst = append(dst, cefSeverities[r.level()]...)
	dst = append(dst, "|rt="...)
	dst = strconv.AppendInt(dst, r.at.UnixMilli(), 10)
	dst = append(dst, " externalId="...)
	dst = strconv.AppendUint(dst, r.seq, 10)
	dst = cefPair(dst, "deviceExternalId", r.store, 255)
	dst = cefPair(dst, "cat", k.family, 1023)
	dst = cefPair(dst, "act", r.act(), 63)
	dst = cefPair(dst, "outcome", cefOutcomes[r.result()], 63)
	dst = cefPair(dst, "reason", r.text("reason_code"), 1023)
	dst = cefPair(dst, "msg", r.why(), 1023)
	dst = cefPair(dst, "suser", r.text("principal_id"), 1023)
	dst = cefPair(dst, "duser", r.first("operator", "name"), 1023)
	dst = cefPeer(dst, r)
	if n := r.times(); n > 1 {
		dst = cefPair(dst, "cnt", strconv.FormatInt(n, 10), 20)
	}
	for _, l := range cefLabelled {
		if value := r.text(l.member); value != "" {
			dst = cefPair(dst, l.key, value, 4000)
			dst = cefPair(dst, l.key+"Label", l.label, 1023)
		}
	}
	for _, o := range cefOwn {
		dst = cefPair(dst, o.key, r.text(o.member), 4000)
	}
	return cefPair(dst, "yettFindings", strings.Join(r.kinds, ","), 4000)
}

func cefPeer(dst []byte, r *record) []byte {
	addr, port := r.peer()
	uid, pid := r.local()
	switch {
	case uid != "":
		return cefPair(cefPair(dst, "suid", uid, 1023), "spid", pid, 20)
	case addr.Is4():
		dst = cefPair(dst, "src", addr.String(), 40)
	case addr.Is6():
		dst = cefPair(dst, "c6a2", addr.WithZone("").String(), 40)
		dst = cefPair(dst, "c6a2Label", "Source IPv6 Address", 1023)
	default:
		return cefPair(dst, "yettPeer", r.text("peer"), 1023)
	}
	if port != 0 {
		dst = cefPair(dst, "spt", strconv.Itoa(int(port)), 5)
	}
	return dst
}

// cefPair adds a key and its value, nothing for an empty one. What is longer than the dictionary allows is cut, and
// ends in an ellipsis.
func cefPair(dst []byte, key, value string, most int) []byte {
	if value == "" {
		return dst
	}
	if utf8.RuneCountInString(value) > most {
		cut := 0
		for range most - 1 {
			_, n := utf8.DecodeRuneInString(value[cut:])
			cut += n
		}
		value = value[:cut] + "…"
	}
	dst = append(append(append(dst, ' '), key...), '=')
	for _, c := range value {
		switch {
		case c == '\\' || c == '=':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = utf8.AppendRune(dst, visible(c))
		}
	}
	return dst
}

// cefHeader writes a field of the header, which cannot have line breaks.
func cefHeader(dst []byte, value string) []byte {
	for _, c := range value {
		if c == '\\' || c == '|' {
			dst = append(dst, '\\')
		}
		dst = utf8.AppendRune(dst, visible(c))
	}
	return dst
}

// visible is the character, or what stands for a control character: a space for a tab, else U+FFFD.
func visible(c rune) rune {
	switch {
	case c == '\t':
		return ' '
	case c < ' ', c == 0x7f:
		return utf8.RuneError
	}
	return c
}
