package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// readChat reads a request for OpenAI chat completions.
func readChat(body []byte, r *Request) error {
	type named struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	}
	var in struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Messages []json.RawMessage `json:"messages"`
		Tools    []struct {
			Type     string `json:"type"`
			Function named  `json:"function"`
			Custom   named  `json:"custom"`
		} `json:"tools"`
		Format struct {
			Type   string `json:"type"`
			Schema struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	r.Model, r.Stream = in.Model, in.Stream
	r.JSON, r.Schema = strings.HasPrefix(in.Format.Type, "json"), in.Format.Schema.Schema
	for _, t := range in.Tools {
		tool := Tool{Name: t.Function.Name, Parameters: t.Function.Parameters}
		if t.Type == "custom" {
			tool = Tool{Name: t.Custom.Name, Custom: true}
		}
		r.Tools = append(r.Tools, tool)
	}
	for i, raw := range in.Messages {
		var m struct {
			Role    string          `json:"role"`
			ID      string          `json:"tool_call_id"`
			Content json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.Role == "tool" {
			r.Results = append(r.Results, Result{CallID: m.ID, Text: texts(m.Content), Raw: raw})
		}
	}
	return nil
}

func chatHead(a *answer, kind string, choices list) object {
	return object{"id": "chatcmpl-" + a.id, "object": kind, "created": 1, "model": a.model, "choices": choices}
}

func chatUsage(a *answer) object {
	return object{"prompt_tokens": 1, "completion_tokens": a.tokens(), "total_tokens": 1 + a.tokens()}
}

// chatCall is one call with the given part of its arguments.
func chatCall(c Issued, arguments string) object {
	kind, key := "function", "arguments"
	if c.Custom {
		kind, key = "custom", "input"
	}
	return object{"id": c.ID, "type": kind, kind: object{"name": c.Tool, key: arguments}}
}

func chatWhole(a *answer) ([]byte, error) {
	message := object{"role": "assistant", "content": nil, "refusal": nil}
	if a.text != "" {
		message["content"] = a.text
	}
	calls := list{}
	for _, c := range a.calls {
		calls = append(calls, chatCall(c, string(c.Arguments)))
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	out := chatHead(a, "chat.completion", list{object{"index": 0, "message": message, "logprobs": nil,
		"finish_reason": a.stop("tool_calls", "stop")}})
	out["usage"] = chatUsage(a)
	return encode(out)
}

func chatStream(a *answer, r *Request) ([]byte, error) {
	e := events{end: "\n"}
	chunk := func(delta object, finish any) {
		e.send("", chatHead(a, "chat.completion.chunk", list{object{"index": 0, "delta": delta, "logprobs": nil,
			"finish_reason": finish}}))
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range pieces(a.text) {
		chunk(object{"content": piece}, nil)
	}
	for i, c := range a.calls {
		start := chatCall(c, "")
		start["index"] = i
		chunk(object{"tool_calls": list{start}}, nil)
		kind, key := "function", "arguments"
		if c.Custom {
			kind, key = "custom", "input"
		}
		for _, piece := range pieces(string(c.Arguments)) {
			chunk(object{"tool_calls": list{object{"index": i, kind: object{key: piece}}}}, nil)
		}
	}
	chunk(object{}, a.stop("tool_calls", "stop"))
	if wantsUsage(r.Body) {
		last := chatHead(a, "chat.completion.chunk", list{})
		last["usage"] = chatUsage(a)
		e.send("", last)
	}
	e.buf.WriteString("data: [DONE]\n\n")
	return e.bytes()
}

// wantsUsage says whether the client asked for counts at the end of the stream.
func wantsUsage(body []byte) bool {
	var in struct {
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	return json.Unmarshal(body, &in) == nil && in.Options.Usage
}
