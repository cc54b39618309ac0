package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

// maxRecord is the longest line that is written: the end of a file must be found again within window.
const maxRecord = window / 2

// recordLine is a record as one line. It is written as it came, so that its leaf hash can still be computed where the
// payload is the whole record. A record that would be taken for another one after a restart is an error.
func recordLine(store string, r *plugin.Record) ([]byte, time.Time, error) {
	at := time.Time{}
	if len(r.JSON) > maxRecord {
		return nil, at, fmt.Errorf("the record has %d bytes, at most %d", len(r.JSON), maxRecord)
	}
	var head struct {
		StoreID *string `json:"store_id"`
		Seq     *uint64 `json:"seq"`
		At      any     `json:"timestamp"`
	}
	if err := json.Unmarshal(r.JSON, &head); err != nil {
		return nil, at, errors.New("the record is no JSON object, or its seq or store_id has the wrong type")
	}
	text := r.JSON
	if bytes.TrimLeft(text, " \t\r\n")[0] != '{' {
		return nil, at, errors.New("the record is no JSON object")
	}
	if head.Seq != nil && *head.Seq != r.Seq || head.StoreID != nil && *head.StoreID != store {
		return nil, at, errors.New("the record's own seq or store_id is not that of its place in the log")
	}
	if text[0] != '{' || bytes.ContainsAny(text, "\r\n") {
		var flat bytes.Buffer
		if err := json.Compact(&flat, text); err != nil {
			return nil, at, err
		}
		text = flat.Bytes()
	}
	if made, ok := head.At.(string); ok {
		at = timeOf(made)
	}
	return append(bytes.Clone(text), '\n'), at, nil
}
