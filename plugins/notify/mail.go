package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
)

// mailer sends mail. The end of a call is a reply to the mail that said it waits.
type mailer struct {
	smtp  *smtpClient
	clock signedhttp.Clock
	links links
	from  *mail.Address
	to    []*mail.Address
}

// letter is one mail before it is written.
type letter struct {
	Subject string
	ID      string // Message-ID without brackets
	Reply   string // Message-ID it answers, or ""
	Title   string
	Fields  []field
	Items   []string
	More    []string
	Link    string
	Open    bool
}

// page is the HTML part. The template escapes all that comes from outside.
var page = template.Must(template.New("mail").Funcs(template.FuncMap{"name": func(f field) string {
	return f.name
}, "value": func(f field) string { return f.value }}).Parse(
	`<!doctype html><html><body><p><b>{{.Title}}</b></p>
{{if .Fields}}<table>{{range .Fields}}<tr><td>{{name .}}</td><td><code>{{value .}}</code></td></tr>
{{end}}</table>{{end}}{{if .Items}}<ul>{{range .Items}}<li><code>{{.}}</code></li>
{{end}}{{range .More}}<li>{{.}}</li>{{end}}</ul>{{end}}
<p><a href="{{.Link}}">{{if .Open}}Sign in to the console to decide{{else}}Open in the console{{end}}</a></p></body></html>
`))

func (l *letter) text() string {
	var b strings.Builder
	b.WriteString(l.Title + "\n\n")
	for _, f := range l.Fields {
		b.WriteString(f.name + ": " + f.value + "\n")
	}
	for _, i := range append(append([]string{}, l.Items...), l.More...) {
		b.WriteString("- " + i + "\n")
	}
	if l.Open {
		b.WriteString("\nSign in to the console to decide: ")
	} else {
		b.WriteString("\nOpen in the console: ")
	}
	b.WriteString(l.Link + "\n")
	return b.String()
}

// write makes the message of RFC 5322. Header values hold no line ends: visible took them out, and what is not ASCII is
// encoded.
func (m *mailer) write(l *letter) ([]byte, error) {
	var out bytes.Buffer
	head := func(name, value string) { out.WriteString(name + ": " + value + "\r\n") }
	var to []string
	for _, a := range m.to {
		to = append(to, a.String())
	}
	head("From", m.from.String())
	head("To", strings.Join(to, ",\r\n "))
	// a name is no encoded word
	head("Subject", mime.QEncoding.Encode("utf-8", strings.ReplaceAll(l.Subject, "=?", "= ?")))
	head("Date", m.clock.Now().UTC().Format(time.RFC1123Z))
	head("Message-ID", "<"+l.ID+">")
	if l.Reply != "" {
		head("In-Reply-To", "<"+l.Reply+">")
		head("References", "<"+l.Reply+">")
	}
	head("Auto-Submitted", "auto-generated")
	head("MIME-Version", "1.0")
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	if err := parts.SetBoundary(fmt.Sprintf("yett-%x", sha256.Sum256([]byte(l.ID)))[:45]); err != nil { // any id will do
		return nil, err
	}
	var html bytes.Buffer
	if err := page.Execute(&html, l); err != nil {
		return nil, err
	}
	for _, p := range []struct{ kind, text string }{{"text/plain", l.text()}, {"text/html", html.String()}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {p.kind + "; charset=utf-8"},
			"Content-Transfer-Encoding": {"base64"}})
		if err != nil {
			return nil, err
		}
		coded := base64.StdEncoding.EncodeToString([]byte(p.text))
		for len(coded) > 0 {
			n := min(len(coded), 76)
			fmt.Fprintf(w, "%s\r\n", coded[:n])
			coded = coded[n:]
		}
	}
	if err := parts.Close(); err != nil {
		return nil, err
	}
	head("Content-Type", `multipart/alternative; boundary="`+parts.Boundary()+`"`)
	out.WriteString("\r\n")
	out.Write(body.Bytes())
	return out.Bytes(), nil
}

func (m *mailer) send(ctx context.Context, until time.Time, l *letter) error {
	text, err := m.write(l)
	if err != nil {
		return &errLetter{fmt.Errorf("write the mail: %w", err)}
	}
	return signedhttp.Deliver(ctx, m.clock, until, func(ctx context.Context) (time.Duration, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		again, err := m.smtp.send(ctx, m.from, m.to, text)
		return 0, again, err
	})
}

// id is the same whenever the same change comes, so that a mail that is sent twice is shown once.
func (m *mailer) id(name string) string {
	_, domain, _ := strings.Cut(m.from.Address, "@")
	return name + ".yett@" + domain
}

func (m *mailer) letter(e *event) *letter {
	fields := e.fields()
	for i := range fields {
		fields[i].value = mailText(fields[i].value)
	}
	about := visible(e.Tool, 80) + " (" + visible(e.Agent, 80) + ")"
	return &letter{Subject: "[Yett] " + e.title() + ": " + about, ID: m.id(eventID(e)), Title: e.title(), Fields: fields,
		Link: m.links.of(e), Open: e.opens()}
}

func (m *mailer) sendOpened(ctx context.Context, until time.Time, e *event) (ref, error) {
	l := m.letter(e)
	return ref{Mail: l.ID}, m.send(ctx, until, l)
}

func (m *mailer) sendSettled(ctx context.Context, until time.Time, e *event, of ref) error {
	l := m.letter(e)
	if l.Reply = of.Mail; l.Reply != "" {
		l.Subject = "Re: " + l.Subject
	}
	return m.send(ctx, until, l)
}

func (m *mailer) sendDigest(ctx context.Context, until time.Time, d *digest) error {
	l := &letter{Subject: "[Yett] " + d.head(), ID: m.id(d.id), Title: d.head(), Link: m.links.all(),
		Open: len(d.opened) > 0}
	for _, all := range [][]*event{d.opened, d.settled} {
		some, more := shown(all)
		for _, e := range some {
			l.Items = append(l.Items, e.word()+": "+mailText(visible(e.Tool, maxName))+" by "+
				mailText(visible(e.Agent, maxName)))
		}
		if more > 0 {
			l.More = append(l.More, fmt.Sprintf("and %d more", more))
		}
	}
	return m.send(ctx, until, l)
}

func (m *mailer) close() {}
