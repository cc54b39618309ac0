package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// responsesTool is one offered tool, or a group of them.
type responsesTool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Tools      []responsesTool `json:"tools"`
}

// readResponses reads a request for OpenAI Responses.
func readResponses(body []byte, r *Request) error {
	var in struct {
		Model  string          `json:"model"`
		Stream bool            `json:"stream"`
		Input  json.RawMessage `json:"input"`
		Tools  []responsesTool `json:"tools"`
		Text   struct {
			Format struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	r.Model, r.Stream = in.Model, in.Stream
	r.JSON, r.Schema = strings.HasPrefix(in.Text.Format.Type, "json"), in.Text.Format.Schema
	for _, t := range in.Tools {
		if t.Type != "namespace" {
			r.Tools = append(r.Tools, t.tool(""))
			continue
		}
		for _, member := range t.Tools {
			r.Tools = append(r.Tools, member.tool(t.Name))
		}
	}
	var text string
	if len(in.Input) == 0 || json.Unmarshal(in.Input, &text) == nil {
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	for i, raw := range items {
		var item struct {
			Type   string          `json:"type"`
			CallID string          `json:"call_id"`
			Output json.RawMessage `json:"output"`
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
		if strings.HasSuffix(item.Type, "_call_output") {
			r.Results = append(r.Results, Result{CallID: item.CallID, Text: texts(item.Output), Raw: raw})
		}
	}
	return nil
}

func (t responsesTool) tool(group string) Tool {
	name := t.Name
	if name == "" {
		name = t.Type // tools of the model's own side have no other name
	}
	return Tool{Name: name, Namespace: group, Parameters: t.Parameters, Custom: t.Type == "custom"}
}

// responsesItems are the items of an answer's output; status is theirs, and full says whether they have their content.
func responsesItems(a *answer, status string, full bool) []object {
	var out []object
	if a.text != "" {
		content := list{}
		if full {
			content = list{responsesText(a.text)}
		}
		out = append(out, object{"id": "msg_" + a.id, "type": "message", "status": status, "role": "assistant",
			"content": content})
	}
	for i, c := range a.calls {
		kind, key, text := "function_call", "arguments", ""
		if c.Custom {
			kind, key = "custom_tool_call", "input"
		}
		if full {
			text = string(c.Arguments)
		}
		item := object{"id": fmt.Sprintf("fc_%s_%d", a.id, i), "type": kind, "status": status, "call_id": c.ID,
			"name": c.Tool, key: text}
		if c.Namespace != "" {
			item["namespace"] = c.Namespace
		}
		out = append(out, item)
	}
	return out
}

func responsesText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": list{}, "logprobs": list{}}
}

// responsesObject is the response around the items. The SDKs want every one of these members.
func responsesObject(a *answer, status string, items []object) object {
	if items == nil {
		items = []object{}
	}
	out := object{"id": "resp_" + a.id, "object": "response", "created_at": 1, "status": status, "model": a.model,
		"output": items, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{},
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": list{}, "temperature": nil, "top_p": nil,
		"usage": nil}
	if status == "completed" {
		out["usage"] = object{"input_tokens": 1, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": a.tokens(), "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": 1 + a.tokens()}
	}
	return out
}

func responsesWhole(a *answer) ([]byte, error) {
	return encode(responsesObject(a, "completed", responsesItems(a, "completed", true)))
}

func responsesStream(a *answer, _ *Request) ([]byte, error) {
	e := events{end: "\n"}
	number := 0
	send := func(name string, more object) {
		more["type"], more["sequence_number"] = name, number
		number++
		e.send(name, more)
	}
	send("response.created", object{"response": responsesObject(a, "in_progress", nil)})
	send("response.in_progress", object{"response": responsesObject(a, "in_progress", nil)})
	begun, done := responsesItems(a, "in_progress", false), responsesItems(a, "completed", true)
	for i := range done {
		id := done[i]["id"]
		send("response.output_item.added", object{"output_index": i, "item": begun[i]})
		part := func(name, key string, value any) {
			more := object{"output_index": i, "item_id": id, key: value}
			if done[i]["type"] == "message" {
				more["content_index"] = 0
			}
			if strings.HasPrefix(name, "response.output_text") {
				more["logprobs"] = list{}
			}
			send(name, more)
		}
		name, key := "response.function_call_arguments", "arguments"
		switch done[i]["type"] {
		case "message":
			part("response.content_part.added", "part", responsesText(""))
			name, key = "response.output_text", "text"
		case "custom_tool_call":
			name, key = "response.custom_tool_call_input", "input"
		}
		text, _ := done[i][key].(string)
		if key == "text" {
			text = a.text
		}
		for _, piece := range pieces(text) {
			part(name+".delta", "delta", piece)
		}
		part(name+".done", key, text)
		if key == "text" {
			part("response.content_part.done", "part", responsesText(text))
		}
		send("response.output_item.done", object{"output_index": i, "item": done[i]})
	}
	send("response.completed", object{"response": responsesObject(a, "completed", done)})
	return e.bytes()
}

func openAIFault(status int, text string) object {
	return object{"error": object{"message": text, "type": "invalid_request_error", "param": nil,
		"code": fmt.Sprint(status)}}
}
