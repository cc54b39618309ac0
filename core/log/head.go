package log

import "time"

// Head is what a record says of itself: what decides who is given it, where it belongs and how old it is. The texts are
// nil if a record does not have them. They are parts of the record, or copies of those that have an escape.
type Head struct {
	Seq        []byte // the number, as it stands there
	StoreID    []byte
	Timestamp  []byte
	Type       []byte
	AgentID    []byte // a pattern in the records of grants and of kills of agents
	ToolID     []byte
	Subscriber []byte // that the record is about
}

// Read reads the head of a record, and looks at all of the record for it. ok is false for what is not written as
// records are, and for a record without a type: then only a parser can say what it is.
func (h *Head) Read(record []byte) (ok bool) { return h.read(record, false) }

// Peek is Read that goes no further than it must to know Type and AgentID: what stands behind both may be anything.
func (h *Head) Peek(record []byte) (ok bool) { return h.read(record, true) }

func (h *Head) read(record []byte, peek bool) bool {
	*h = Head{}
	readable := true
	ok := Members(record, func(name, value []byte) bool {
		var to *[]byte
		switch string(name) {
		case "seq":
			h.Seq = value
			return true
		case "store_id":
			to = &h.StoreID
		case "timestamp":
			to = &h.Timestamp
		case "type":
			to = &h.Type
		case "agent_id":
			to = &h.AgentID
		case "tool_id":
			to = &h.ToolID
		case "subscriber":
			to = &h.Subscriber
		default:
			return true
		}
		if *to, readable = PlainText(value); !readable {
			var text string
			if text, readable = Text(value); text != "" {
				*to = []byte(text)
			}
		}
		return readable && !(peek && h.Type != nil && h.AgentID != nil)
	})
	return ok && readable && len(h.Type) > 0
}

// Time is when the record was written; zero if it does not say.
func (h *Head) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, string(h.Timestamp))
	if err != nil {
		return time.Time{}
	}
	return at
}
