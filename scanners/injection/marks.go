package main

import "github.com/yett-dev/yett/sdk/scanner"

// mark is a piece of a format in which programs hand text to a model. In what a tool puts out it has no business.
type mark struct {
	text string
	kind int
	// weak: something else has such lines too, so what follows must give an order.
	weak bool
}

var marks = []mark{
	{"<|im_start|>", kTemplate, false}, {"<|im_end|>", kTemplate, false}, {"<|im_sep|>", kTemplate, false},
	{"<|system|>", kTemplate, false}, {"<|user|>", kTemplate, false}, {"<|assistant|>", kTemplate, false},
	{"<|end|>", kTemplate, false}, {"<|endoftext|>", kTemplate, false}, {"<|endofprompt|>", kTemplate, false},
	{"<|begin_of_text|>", kTemplate, false}, {"<|start_header_id|>", kTemplate, false}, {"<|eot_id|>", kTemplate,
		false},
	{"<|eom_id|>", kTemplate, false}, {"<|python_tag|>", kToolCall, false}, {"<|channel|>", kTemplate, false},
	{"<|message|>", kTemplate, false}, {"<|return|>", kTemplate, false}, {"<|call|>", kToolCall, false},
	{"[inst]", kTemplate, false}, {"[/inst]", kTemplate, false}, {"<<sys>>", kTemplate, false}, {"<</sys>>",
		kTemplate, false},
	{"<start_of_turn>", kTemplate, false}, {"<end_of_turn>", kTemplate, false}, {"<｜user｜>", kTemplate, false},
	{"<｜assistant｜>", kTemplate, false}, {"<｜begin▁of▁sentence｜>", kTemplate, false}, {"<|start_of_role|>",
		kTemplate, false},
	{"[system_prompt]", kTemplate, false}, {"<|system_prompt|>", kTemplate, false}, {"<|prompter|>", kTemplate,
		false},
	{"[system](#", kTemplate, false}, {"[assistant](#", kTemplate, false}, {"<|user_token|>", kTemplate, false},
	{"[tool_calls]", kToolCall, false}, {"[available_tools]", kToolCall, false}, {"<tool_call>", kToolCall, false},
	{"<function_calls>", kToolCall, false}, {"<function_call>", kToolCall, false}, {"<invoke name=", kToolCall,
		false},
	{"<|tool_call", kToolCall, false}, {"<|tool▁call", kToolCall, false}, {"<tool_use>", kToolCall, false},
	{"<function=", kToolCall, true},
	{"\"tool_calls\"", kToolCall, true}, {"\"function_call\"", kToolCall, true}, {"action input:", kToolCall, true},
	{"system:", kFakeTurn, true}, {"assistant:", kFakeTurn, true}, {"human:", kFakeTurn, true}, {"user:",
		kFakeTurn, true},
	{"developer:", kFakeTurn, true}, {"systeme:", kFakeTurn, true}, {"système:", kFakeTurn, true}, {"sistema:",
		kFakeTurn, true},
	{"### instruction", kFakeTurn, true}, {"### system", kFakeTurn, true}, {"###instruction", kFakeTurn, true},
	{"### response", kFakeTurn, true}, {"<system>", kFakeTurn, true}, {"</system>", kFakeTurn, true},
	{"<system-reminder>", kFakeTurn, true}, {"[system]", kFakeTurn, true}, {"[system message]", kFakeTurn, true},
	{"</user>", kFakeTurn, true}, {"</tool_result>", kFakeTurn, true}, {"</document>", kFakeTurn, true},
	{"<admin>", kFakeTurn, true},
	{"<information>", kFakeTurn, true}, {"<important>", kFakeTurn, true}, {"system：", kFakeTurn, true},
	{"[end of", kFakeTurn, true},
	{"-----end", kFakeTurn, true}, {"<!--", kFakeTurn, true}, {"系统：", kFakeTurn, true}, {"系统:", kFakeTurn,
		true}, {"система:", kFakeTurn, true},
}

// orders is what a line must speak of to be an order from a turn that somebody has made up.
const orders = cIgnore | cOrder | cSysPrompt | cConceal | cSend | cDone | cOverride | cPersona | cRole

// mark judges the hit of a mark.
func (s *scan) mark(m *mark, h scanner.Hit) {
	end := min(len(s.t), h.End+maxSegment)
	for i := h.End; i < end; i++ {
		if s.t[i] == '\n' && i > h.End+1 {
			end = i
			break
		}
	}
	for end < len(s.t) && end > h.End && s.t[end]&0xc0 == 0x80 {
		end--
	}
	if !m.weak {
		s.add(m.kind, h.Start, trimRight(s.t, h.End, end), 0.9)
		return
	}
	if !lineStart(s.t, h.Start) || h.End <= s.markDone {
		return
	}
	s.markDone = h.End
	s.seg.fold(s.t[h.End:end], h.End)
	s.seg.understand(s.t[h.End:end], h.End)
	c := s.seg.concepts
	strong := c&(cOrder|cIgnore|cSysPrompt|cConceal|cDone|cOverride) != 0
	if c&orders != 0 && (strong || bits(c) >= 4) &&
		c&(cYour|cInstr|cRules|cTool|cSecret|cUser|cAI|cAll|cReply|cSysPrompt|cData) != 0 &&
		bits(c) >= 3 && c&cMeta == 0 {
		s.add(m.kind, h.Start, trimRight(s.t, h.End, end), 0.7)
	}
}

// lineStart tells whether nothing but marks and spaces stands between the beginning of the line and i.
func lineStart(t []byte, i int) bool {
	for n := 0; i > 0 && n < 24; n++ {
		switch c := t[i-1]; {
		case c == '\n' || c == '.' || c == ';' || c == '>':
			return true
		case isWord(c) || c >= 0x80:
			return false
		}
		i--
	}
	return i == 0
}

func trimRight(t []byte, low, end int) int {
	for end > low && isSpace(t[end-1]) {
		end--
	}
	return end
}

func bits(c uint32) (n int) {
	for ; c != 0; c &= c - 1 {
		n++
	}
	return n
}
