package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/log"
)

// record is a record that is being read: the members that every record has, and the others as they stand there.
type record struct {
	raw        []byte
	members    []member
	seq        uint64
	store, typ string
	at         time.Time
	worst      level // of the findings of a scan
	kinds      []string
}

type member struct{ name, value []byte }

// Invalid is the error of a line that is no record.
type Invalid struct{ Err error }

func (e *Invalid) Error() string { return "it is no record: " + e.Err.Error() }
func (e *Invalid) Unwrap() error { return e.Err }

// read takes one line. It keeps parts of it.
func (r *record) read(line []byte) error {
	*r = record{raw: line, members: r.members[:0], kinds: r.kinds[:0]}
	if bytes.ContainsAny(line, "\t\r\n") || !utf8.Valid(line) || !json.Valid(line) || !log.Members(line, r.add) {
		return errors.New("it cannot be parsed")
	}
	var err error
	if r.seq, err = strconv.ParseUint(r.text("seq"), 10, 63); err != nil || r.seq == 0 {
		return errors.New("seq must be a number from 1")
	}
	r.store, r.typ = r.text("store_id"), r.text("type")
	if r.store == "" || r.typ == "" {
		return errors.New("store_id and type must not be empty")
	}
	if r.at, err = time.Parse(time.RFC3339Nano, r.text("timestamp")); err != nil {
		return fmt.Errorf("timestamp must be in RFC 3339: %w", err)
	}
	if r.typ == "scan" {
		return r.findings()
	}
	return nil
}

// findings reads what a scan has found.
func (r *record) findings() error {
	var found []struct {
		Kind, Severity string
		Shadow         bool
	}
	if value := r.value("findings"); value != nil {
		if err := json.Unmarshal(value, &found); err != nil {
			return fmt.Errorf("findings: %w", err)
		}
	}
	for _, f := range found {
		r.kinds = append(r.kinds, f.Kind)
		if !f.Shadow {
			r.worst = max(r.worst, levelOf[f.Severity])
		}
	}
	return nil
}

func (r *record) add(name, value []byte) (more bool) {
	r.members = append(r.members, member{name, value})
	return true
}

func (r *record) value(name string) []byte {
	for i := range r.members {
		if string(r.members[i].name) == name {
			return r.members[i].value
		}
	}
	return nil
}

// text is a member as text: the inside of a string, and anything else as it stands there. A missing one is empty.
func (r *record) text(name string) string {
	value := r.value(name)
	if len(value) == 0 || value[0] != '"' {
		return string(value)
	}
	if plain, ok := log.PlainText(value); ok {
		return string(plain)
	}
	var s string
	_ = json.Unmarshal(value, &s) // the record was parsed before
	return s
}

// first is the first of these members that is there and not empty.
func (r *record) first(names ...string) string {
	for _, name := range names {
		if s := r.text(name); s != "" {
			return s
		}
	}
	return ""
}

func (r *record) number(name string) int64 {
	n, _ := strconv.ParseInt(r.text(name), 10, 64) // no number is none
	return n
}

// id names the record everywhere.
func (r *record) id() string { return r.store + "/" + strconv.FormatUint(r.seq, 10) }

// why is what the record says in words.
func (r *record) why() string { return r.first("reason", "why", "error") }

// peer is the address that a change was asked from. It is not valid for whoever has none, as on a Unix socket.
func (r *record) peer() (addr netip.Addr, port uint16) {
	text := r.text("peer")
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap(), ap.Port()
	}
	addr, _ = netip.ParseAddr(text)
	return addr.Unmap(), 0
}

// tool is the full name of the tool, as rules see it.
func (r *record) tool() string {
	tool, operation := r.text("tool_id"), r.text("operation")
	if operation == "" || strings.Contains(tool, "/") {
		return tool
	}
	return tool + "/" + operation
}

// local is the user and the process at the other end of a Unix socket, empty for anybody else: "uid:1000,pid:77" of an
// agent's, "1000" of an operator's.
func (r *record) local() (uid, pid string) {
	switch text := r.text("peer"); r.text("surface") {
	case "admin":
		uid = text
	case "socket":
		uid, pid, _ = strings.Cut(strings.TrimPrefix(text, "uid:"), ",pid:")
	}
	for _, id := range []string{uid, pid} {
		if _, err := strconv.ParseUint(id, 10, 32); err != nil && id != "" {
			return "", ""
		}
	}
	return uid, pid
}

// times is for how many events the record stands: some that come in floods are recorded once with their number.
func (r *record) times() int64 {
	switch r.typ {
	case "auth_failed":
		return max(r.number("refused"), 1)
	case "console_sign_in_refused":
		return max(r.number("unrecorded"), 0) + 1
	}
	return 1
}
