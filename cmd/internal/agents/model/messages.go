package model

import (
	"encoding/json"
	"fmt"
)

// readMessages reads a request for Anthropic Messages.
func readMessages(body []byte, r *Request) error {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Output struct {
			Format *struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	r.Model, r.Stream = in.Model, in.Stream
	if in.Output.Format != nil {
		r.JSON, r.Schema = true, in.Output.Format.Schema
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, Tool{Name: t.Name, Parameters: t.Schema})
	}
	for i, m := range in.Messages {
		if err := messagesResults(m.Content, r); err != nil {
			return fmt.Errorf("messages[%d].content: %w", i, err)
		}
	}
	return nil
}

func messagesResults(content json.RawMessage, r *Request) error {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return nil
	}
	var blocks []json.RawMessage
	if err := json.Unmarshal(content, &blocks); err != nil {
		return err
	}
	for _, raw := range blocks {
		var b struct {
			Type    string          `json:"type"`
			ID      string          `json:"tool_use_id"`
			Content json.RawMessage `json:"content"`
			Failed  bool            `json:"is_error"`
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return err
		}
		if b.Type == "tool_result" {
			r.Results = append(r.Results, Result{CallID: b.ID, Text: texts(b.Content), Failed: b.Failed, Raw: raw})
		}
	}
	return nil
}

func messagesHead(a *answer, content list, stop any, out int) object {
	return object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": out,
			"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}
}

func messagesWhole(a *answer) ([]byte, error) {
	content := list{}
	if a.text != "" {
		content = append(content, object{"type": "text", "text": a.text})
	}
	for _, c := range a.calls {
		content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Tool,
			"input": json.RawMessage(c.Arguments)})
	}
	return encode(messagesHead(a, content, a.stop("tool_use", "end_turn"), a.tokens()))
}

func messagesStream(a *answer, _ *Request) ([]byte, error) {
	e := events{end: "\n"}
	send := func(name string, more object) {
		more["type"] = name
		e.send(name, more)
	}
	send("message_start", object{"message": messagesHead(a, list{}, nil, 1)})
	index := 0
	block := func(start, delta object, key, text string) {
		send("content_block_start", object{"index": index, "content_block": start})
		for _, piece := range pieces(text) {
			send("content_block_delta", object{"index": index, "delta": object{"type": delta["type"], key: piece}})
		}
		send("content_block_stop", object{"index": index})
		index++
	}
	if a.text != "" {
		block(object{"type": "text", "text": ""}, object{"type": "text_delta"}, "text", a.text)
	}
	for _, c := range a.calls {
		block(object{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": object{}},
			object{"type": "input_json_delta"}, "partial_json", string(c.Arguments))
	}
	send("message_delta", object{"usage": object{"output_tokens": a.tokens()},
		"delta": object{"stop_reason": a.stop("tool_use", "end_turn"), "stop_sequence": nil}})
	send("message_stop", object{})
	return e.bytes()
}

func messagesFault(status int, text string) object {
	kind := map[int]string{401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}[status]
	if kind == "" {
		kind = "invalid_request_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": text}}
}
