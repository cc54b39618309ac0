package model

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// geminiRequest is a request in proto JSON, which takes each name in two spellings: Google's JavaScript SDK sends one,
// its Python SDK the other in places.
type geminiRequest struct {
	Contents []struct {
		Parts []struct {
			Answer  json.RawMessage `json:"functionResponse"`
			Answer2 json.RawMessage `json:"function_response"`
		} `json:"parts"`
	} `json:"contents"`
	Tools []struct {
		Functions  []geminiFunction `json:"functionDeclarations"`
		Functions2 []geminiFunction `json:"function_declarations"`
	} `json:"tools"`
	Config  geminiConfig `json:"generationConfig"`
	Config2 geminiConfig `json:"generation_config"`
}

type geminiFunction struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Schema     json.RawMessage `json:"parametersJsonSchema"`
	Schema2    json.RawMessage `json:"parameters_json_schema"`
}

type geminiConfig struct {
	Type    string          `json:"responseMimeType"`
	Type2   string          `json:"response_mime_type"`
	Schema  json.RawMessage `json:"responseSchema"`
	Schema2 json.RawMessage `json:"response_schema"`
	JSON    json.RawMessage `json:"responseJsonSchema"`
	JSON2   json.RawMessage `json:"response_json_schema"`
}

// readGemini reads a request for Gemini's generateContent and streamGenerateContent. The model's name and the choice
// between them are in the path.
func readGemini(body []byte, r *Request) error {
	var in geminiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	for _, c := range []geminiConfig{in.Config, in.Config2} {
		r.JSON = r.JSON || c.Type == "application/json" || c.Type2 == "application/json"
		r.Schema = firstOf(r.Schema, c.JSON, c.JSON2, c.Schema, c.Schema2)
	}
	for _, group := range in.Tools {
		for _, f := range append(group.Functions, group.Functions2...) {
			r.Tools = append(r.Tools, Tool{Name: f.Name, Parameters: firstOf(f.Schema, f.Schema2, f.Parameters)})
		}
	}
	for i, c := range in.Contents {
		for j, part := range c.Parts {
			raw := firstOf(part.Answer, part.Answer2)
			if len(raw) == 0 {
				continue
			}
			var f struct {
				ID       string          `json:"id"`
				Name     string          `json:"name"`
				Response json.RawMessage `json:"response"`
			}
			if err := json.Unmarshal(raw, &f); err != nil {
				return fmt.Errorf("contents[%d].parts[%d].functionResponse: %w", i, j, err)
			}
			text, failed := geminiText(f.Response)
			r.Results = append(r.Results, Result{CallID: f.ID, Tool: f.Name, Text: text, Failed: failed, Raw: raw})
		}
	}
	return nil
}

// firstOf is the first value that is there and not null.
func firstOf(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 && string(v) != "null" {
			return v
		}
	}
	return nil
}

// geminiText is the text of a function's response: "output" where it went well, "error" where it did not.
func geminiText(raw json.RawMessage) (text string, failed bool) {
	var in struct {
		Output json.RawMessage `json:"output"`
		Error  json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(raw, &in); {
	case err == nil && in.Error != nil:
		return texts(in.Error), true
	case err == nil && in.Output != nil:
		return texts(in.Output), false
	}
	return string(raw), false
}

// geminiPath splits ".../models/NAME:METHOD".
func geminiPath(path string) (model, method string, ok bool) {
	i := strings.LastIndex(path, "/models/")
	if i < 0 {
		return "", "", false
	}
	switch path[:i] {
	case "/v1beta", "/v1", "/v1alpha":
	default:
		return "", "", false
	}
	model, method, ok = strings.Cut(path[i+len("/models/"):], ":")
	return model, method, ok && model != ""
}

func geminiObject(a *answer, parts list, last bool) object {
	candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	if last {
		candidate["finishReason"] = "STOP"
	}
	return object{"candidates": list{candidate}, "modelVersion": a.model, "responseId": a.id,
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": a.tokens(),
			"totalTokenCount": 1 + a.tokens()}}
}

func geminiCalls(a *answer) list {
	out := list{}
	for _, c := range a.calls {
		out = append(out, object{"functionCall": object{"id": c.ID, "name": c.Tool,
			"args": json.RawMessage(c.Arguments)}})
	}
	return out
}

func geminiWhole(a *answer) ([]byte, error) {
	parts := list{}
	if a.text != "" {
		parts = append(parts, object{"text": a.text})
	}
	return encode(geminiObject(a, append(parts, geminiCalls(a)...), true))
}

// geminiStream sends events where the client asks for them with alt=sse, and a JSON array otherwise.
func geminiStream(a *answer, r *Request) ([]byte, error) {
	var chunks list
	for _, piece := range pieces(a.text) {
		chunks = append(chunks, geminiObject(a, list{object{"text": piece}}, false))
	}
	if len(a.calls) > 0 {
		chunks = append(chunks, geminiObject(a, geminiCalls(a), false))
	}
	chunks = append(chunks, geminiObject(a, list{object{"text": ""}}, true))
	if q, _ := url.ParseQuery(r.Query); q.Get("alt") != "sse" {
		return encode(chunks)
	}
	e := events{end: "\r\n"}
	for _, c := range chunks {
		e.send("", c)
	}
	return e.bytes()
}

func geminiFault(status int, text string) object {
	word := map[int]string{401: "UNAUTHENTICATED", 404: "NOT_FOUND"}[status]
	if word == "" {
		word = "INVALID_ARGUMENT"
	}
	return object{"error": object{"code": status, "message": text, "status": word}}
}
