package config

import (
	"github.com/yett-dev/yett/config/strict"
	"github.com/yett-dev/yett/sdk/exact"
)

// Limits bound what one request, one key and the whole server may use. Whatever runs into one is told which.
type Limits struct {
	AuthorizeBody      Size     `koanf:"authorize_body" default:"1MiB" min:"1KiB" max:"64MiB" doc:"Largest body of an authorize call or an action."`
	ScanBody           Size     `koanf:"scan_body" default:"4MiB" min:"1KiB" max:"256MiB" doc:"Largest body of a scan."`
	Headers            Size     `koanf:"headers" default:"16KiB" min:"1KiB" max:"1MiB" doc:"Largest request line with all headers."`
	Depth              int      `koanf:"depth" default:"64" min:"4" max:"1024" doc:"Deepest nesting of a JSON document."`
	Tokens             int      `koanf:"tokens" default:"100000" min:"64" max:"10000000" doc:"Most values and names in a JSON document."`
	Name               int      `koanf:"name" default:"256" min:"16" max:"4096" doc:"Longest agent_id, tool_id, session_id and call_id, in bytes."`
	HeaderRead         Duration `koanf:"header_read" default:"5s" min:"100ms" max:"5m" doc:"How long a client may take to send its headers."`
	WholeRead          Duration `koanf:"whole_read" default:"10s" min:"100ms" max:"10m" doc:"How long a client may take to send a whole request."`
	Idle               Duration `koanf:"idle" default:"60s" min:"1s" max:"1h" doc:"How long a connection may wait between requests."`
	Connections        int      `koanf:"connections" default:"10000" min:"1" max:"1000000" doc:"Most open connections of the HTTP listener, and of the socket. A few more are kept for kills, approvals and the open pages."`
	ConnectionsPerKey  int      `koanf:"connections_per_key" default:"2500" min:"1" max:"1000000" doc:"Most of these connections that one key has; never more than connections. The next one closes the key's idle connection that was used least lately. If none is idle, it is refused."`
	FirstByte          Duration `koanf:"first_byte" default:"10s" min:"100ms" max:"5m" doc:"How long a new connection may take to send its first byte; on the socket, its first message."`
	KeylessPer         int      `koanf:"keyless_per_address" default:"1024" min:"1" max:"1000000" doc:"Most open connections of one address (of an IPv6 network of 64 bits; on the socket, of one user) that have not shown a valid key. The next one closes the oldest of them."`
	Bodies             Size     `koanf:"bodies" default:"256MiB" min:"1MiB" max:"64GiB" doc:"Most memory that the bodies of unanswered requests, in text and as they are parsed, and long answers to reads that were not taken yet, hold together. Bodies over 64KiB may take three quarters of it."`
	BodiesPerKey       Size     `koanf:"bodies_per_key" default:"64MiB" min:"1MiB" max:"64GiB" doc:"The same of one key."`
	PendingPerKey      int      `koanf:"pending_per_key" default:"1000" min:"1" max:"1000000" doc:"Most calls of one key that wait for an approval."`
	ActionsPerApproval int      `koanf:"actions_per_approval" default:"100" min:"1" max:"1000" doc:"Most actions that wait for one approval: the same call submitted again while it waits. More are denied."`
	LongPollsPerKey    int      `koanf:"long_polls_per_key" default:"64" min:"1" max:"100000" doc:"Most status requests of one key that wait for an answer."`
	StreamsPerKey      int      `koanf:"streams_per_key" default:"16" min:"1" max:"100000" doc:"Most subscriptions of one key that are open at once."`
	ScanStreams        int      `koanf:"scan_streams_per_key" default:"64" min:"1" max:"100000" doc:"Most streams of scan_output that one key has open at once."`
	ScanStream         Size     `koanf:"scan_stream_held" default:"4MiB" min:"1KiB" max:"256MiB" doc:"Most text of one stream of scan_output that is held back between two pieces. More is DENIED."`
	ScanStreamsAll     Size     `koanf:"scan_streams_memory" default:"256MiB" min:"64KiB" max:"64GiB" doc:"Most memory that all streams of scan_output take between their pieces, with the last answer of each. One key may take a quarter of it, or six times scan_stream_held if that is more. The last quarter is for keys that hold little: at most 1/128 of it, or 64KiB if that is more."`
	ScanIdle           Duration `koanf:"scan_stream_idle" default:"5m" min:"1s" max:"24h" doc:"How long a stream of scan_output may wait for its next piece. It is forgotten then."`
	Grants             int      `koanf:"grants" default:"1000000" min:"1" max:"100000000" doc:"Most standing grants that are live at once."`
	GrantsPerKey       int      `koanf:"grants_per_key" default:"100000" min:"1" max:"100000000" doc:"Most of these that one key, with those that it was rolled from and to, or one operator at the console has issued; never more than grants."`
	RatePerKey         int      `koanf:"rate_per_key" default:"0" min:"0" max:"10000000" doc:"Most requests of one key in a second; 0 is no limit. Kills, their undo and the revocation of grants do not count."`
	QueuedPerKey       Size     `koanf:"queued_per_key" default:"32MiB" min:"1MiB" max:"16GiB" doc:"Most bytes of one key's calls that wait to be written to the log. More is refused (too_many_requests)."`
	Queued             Size     `koanf:"queued" default:"256MiB" min:"1MiB" max:"64GiB" doc:"Most bytes of all keys' calls that wait to be written. Kills and revocations are never refused."`
	InFlight           int      `koanf:"in_flight" default:"4096" min:"1" max:"1000000" doc:"Most requests that are being decided at once. The last quarter is for keys that have few."`
}

// JSON bounds what is parsed of a document.
func (l *Limits) JSON() exact.Limits { return exact.Limits{Depth: l.Depth, Tokens: l.Tokens} }

// Largest is the size of the largest body of all, bytes.
func (l *Limits) Largest() int64 { return int64(max(l.AuthorizeBody, l.ScanBody)) }

// Large is what the bodies over 64 KiB may hold together, bytes.
func (l *Limits) Large() int64 { return int64(l.Bodies - l.Bodies/4) }

func (l *Limits) validate(r *strict.Report) {
	if l.HeaderRead > l.WholeRead {
		r.Errorf("limits.header_read", "%s is longer than limits.whole_read (%s)", l.HeaderRead, l.WholeRead)
	}
	largest, name := l.ScanBody, "limits.scan_body"
	if l.AuthorizeBody > largest {
		largest, name = l.AuthorizeBody, "limits.authorize_body"
	}
	if l.BodiesPerKey < largest {
		r.Errorf("limits.bodies_per_key", "%s is less than %s (%s), so the largest body could never be sent", l.BodiesPerKey,
			name, largest)
	}
	if l.Bodies/4*3 < largest {
		r.Errorf("limits.bodies", "three quarters of %s are less than %s (%s), so the largest body could never be sent",
			l.Bodies, name, largest)
	}
	if l.BodiesPerKey > l.Bodies {
		r.Errorf("limits.bodies_per_key", "%s is more than limits.bodies (%s)", l.BodiesPerKey, l.Bodies)
	}
	if l.ScanStream > l.ScanStreamsAll/4*3 {
		r.Errorf("limits.scan_stream_held", "%s is more than three quarters of limits.scan_streams_memory (%s), so it "+
			"could never be reached", l.ScanStream, l.ScanStreamsAll)
	}
	if l.QueuedPerKey > l.Queued {
		r.Errorf("limits.queued_per_key", "%s is more than limits.queued (%s)", l.QueuedPerKey, l.Queued)
	}
	if Size(l.Name) > l.AuthorizeBody {
		r.Errorf("limits.name", "%d bytes is more than limits.authorize_body (%s)", l.Name, l.AuthorizeBody)
	}
}
