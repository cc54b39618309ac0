package main

import "github.com/yett-dev/yett/sdk/scanner"

// Kinds, in the order in which they win where they cover the same words.
const (
	kOverride = iota
	kSystemPrompt
	kJailbreak
	kConcealment
	kExfiltration
	kFakeTurn
	kToolOrder
	kSecretRequest
	kSteering
	kTemplate
	kToolCall
	kLink
	kEncoded
	kHidden
	kInvisible
	kBidi
	kSuspected
	kindCount
)

// kindTable names each kind, how bad it is and whether it is removed by default.
var kindTable = [kindCount]struct {
	name     string
	severity scanner.Severity
	redact   bool
	prose    bool // programs speak of it too: not looked for in their lines
}{
	kOverride:      {"INJECTION_OVERRIDE", scanner.High, true, false},
	kSystemPrompt:  {"INJECTION_SYSTEM_PROMPT", scanner.High, true, false},
	kJailbreak:     {"INJECTION_JAILBREAK", scanner.High, true, false},
	kConcealment:   {"INJECTION_CONCEALMENT", scanner.High, true, true},
	kExfiltration:  {"INJECTION_EXFILTRATION", scanner.Critical, true, true},
	kFakeTurn:      {"INJECTION_FAKE_TURN", scanner.Medium, true, false},
	kToolOrder:     {"INJECTION_TOOL_ORDER", scanner.Medium, true, true},
	kSecretRequest: {"INJECTION_SECRET_REQUEST", scanner.Medium, false, true},
	kSteering:      {"INJECTION_STEERING", scanner.Low, false, true},
	kSuspected:     {"INJECTION_SUSPECTED", scanner.Low, false, true},
	kTemplate:      {"INJECTION_CHAT_TEMPLATE", scanner.High, true, false},
	kToolCall:      {"INJECTION_TOOL_CALL", scanner.High, true, false},
	kLink:          {"INJECTION_EXFIL_LINK", scanner.High, true, false},
	kEncoded:       {"INJECTION_ENCODED", scanner.High, true, false},
	kHidden:        {"INJECTION_TAG_TEXT", scanner.High, true, false},
	kInvisible:     {"INJECTION_INVISIBLE", scanner.Medium, true, false},
	kBidi:          {"INJECTION_BIDI", scanner.Medium, false, false},
}

// rule is a set of concepts that stand within so many words of each other, in any order.
type rule struct {
	kind       int
	need       []uint32 // each a choice of concepts
	span       int      // words
	ordered    bool     // the last need is met last
	confidence float32
}

var ruleTable = []rule{
	{kind: kOverride, need: []uint32{cIgnore, cInstr, cPrior}, span: 8, confidence: 0.95},
	{kind: kOverride, need: []uint32{cIgnore, cInstr, cYour}, span: 6, confidence: 0.85},
	{kind: kOverride, need: []uint32{cIgnore, cInstr, cAll}, span: 5, confidence: 0.8},
	{kind: kOverride, need: []uint32{cIgnore, cRules, cPrior, cAll | cYour | cReveal | cSend | cNew | cRole},
		span: 8, confidence: 0.85},
	{kind: kOverride, need: []uint32{cIgnore, cRules, cYour}, span: 6, confidence: 0.7},
	{kind: kOverride, need: []uint32{cOverride,
		cNew | cReveal | cRole | cOrder | cSteer | cPersona | cNamed | cInstr | cSecret | cSysPrompt}, span: 16,
		confidence: 0.85},
	{kind: kOverride, need: []uint32{cIgnore, cSysPrompt}, span: 8, confidence: 0.9},
	{kind: kOverride, need: []uint32{cDone, cOrder | cIgnore}, span: 14, confidence: 0.7},
	{kind: kSystemPrompt, need: []uint32{cReveal, cSysPrompt}, span: 9, ordered: true, confidence: 0.85},
	{kind: kSystemPrompt, need: []uint32{cReveal, cSysPrompt}, span: 4, confidence: 0.85},
	{kind: kSystemPrompt, need: []uint32{cExtract}, span: 1, confidence: 0.7},
	{kind: kJailbreak, need: []uint32{cNamed, cRole | cAI}, span: 16, confidence: 0.8},
	{kind: kJailbreak, need: []uint32{cPersona, cRole, cAI}, span: 24, confidence: 0.7},
	{kind: kJailbreak, need: []uint32{cBreak, cRole | cAI | cNamed, cYour | cRole | cNamed | cPersona}, span: 24,
		confidence: 0.7},
	{kind: kConcealment, need: []uint32{cConceal, cUser}, span: 8, confidence: 0.8},
	{kind: kConcealment, need: []uint32{cConceal, cSend, cData | cSecret | cPlace}, span: 30, confidence: 0.8},
	{kind: kExfiltration, need: []uint32{cSend, cSecret | cSysPrompt, cPlace}, span: 24, confidence: 0.8},
	{kind: kExfiltration, need: []uint32{cSend, cData, cPlace, cYour | cUser | cAll}, span: 20, confidence: 0.6},
	{kind: kOverride, need: []uint32{cStrict, cOrder}, span: 20, confidence: 0.85},
	{kind: kToolOrder, need: []uint32{cStrict, cTool}, span: 40, confidence: 0.6},
	{kind: kSecretRequest, need: []uint32{cReveal, cSecret, cYour}, span: 9, confidence: 0.5},
	{kind: kSteering, need: []uint32{cSteer, cReply}, span: 9, ordered: true, confidence: 0.5},
}

// judge gives the best rule that holds in the segment.
func (s *segment) judge() (kind int, confidence float32, found bool) {
	for i := range ruleTable {
		r := &ruleTable[i]
		for _, need := range r.need {
			if s.concepts&need == 0 {
				goto next
			}
		}
		if s.holds(r) && !(s.code && kindTable[r.kind].prose) {
			return r.kind, r.confidence, true
		}
	next:
	}
	return 0, 0, false
}

// holds tells whether the words that a rule needs stand close enough.
func (s *segment) holds(r *rule) bool {
	var last [4]int // where each need was met last, from 1
	span := r.span * wordPlace
	for i := range s.tokens {
		c := s.tokens[i].concepts
		if c == 0 {
			continue
		}
		met := false
		for k, need := range r.need {
			if c&need != 0 {
				last[k] = i + 1
				met = true
			}
		}
		if !met {
			continue
		}
		near := !r.ordered || c&r.need[len(r.need)-1] != 0
		for k := range r.need {
			near = near && last[k] > 0 && s.tokens[i].place-s.tokens[last[k]-1].place < span
		}
		if near && distinct(last[:len(r.need)]) {
			return true
		}
	}
	return false
}

// distinct tells whether not all needs were met by one word.
func distinct(at []int) bool {
	for _, p := range at[1:] {
		if p != at[0] {
			return true
		}
	}
	return len(at) == 1
}
