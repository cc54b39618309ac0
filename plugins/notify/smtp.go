package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"
)

// How the connection to a mail server is protected.
const (
	securityStartTLS = "starttls"
	securityTLS      = "tls"
	securityNone     = "none"
)

// smtpClient hands mail to one server. Each message has a connection of its own.
type smtpClient struct {
	address  string // host:port
	security string
	conf     *tls.Config
	hello    string
	username string
	password string // "": no AUTH
}

// send hands one message over. again says whether the failure may pass: a 5xx answer does not. A server that offers no
// STARTTLS where the settings want it gets no mail and no password.
func (s *smtpClient) send(ctx context.Context, from *mail.Address, to []*mail.Address, text []byte) (again bool,
	err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return s.passes(err), err
	}
	defer func() { _ = c.Close() }()
	if err := s.hand(c, from, to, text); err != nil {
		return s.passes(err), err
	}
	_ = c.Quit() // the message is taken already
	return false, nil
}

// errConfig is an error that only the operator can mend.
var errConfig = errors.New("the mail server does not fit the settings")

func (s *smtpClient) passes(err error) bool {
	var answer *textproto.Error
	if errors.As(err, &answer) {
		return answer.Code < 500
	}
	return !errors.Is(err, errConfig)
}

func (s *smtpClient) connect(ctx context.Context) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		return nil, fmt.Errorf("%w: smtp.address is no host:port", errConfig)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, fmt.Errorf("connect to the mail server: %w", err)
	}
	at, ok := ctx.Deadline()
	if !ok {
		at = time.Now().Add(tryFor)
	}
	if err := conn.SetDeadline(at); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conf := s.conf.Clone()
	conf.ServerName = host
	if s.security == securityTLS {
		conn = tls.Client(conn, conf)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return nil, fmt.Errorf("greet the mail server: %w", errors.Join(err, conn.Close()))
	}
	if err := s.begin(c, conf, host); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (s *smtpClient) begin(c *smtp.Client, conf *tls.Config, host string) error {
	if err := c.Hello(s.hello); err != nil {
		return fmt.Errorf("EHLO: %w", err)
	}
	if s.security == securityStartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return fmt.Errorf("%w: it offers no STARTTLS", errConfig)
		}
		if err := c.StartTLS(conf); err != nil {
			return fmt.Errorf("STARTTLS: %w", err)
		}
	}
	if s.password == "" {
		return nil
	}
	_, how := c.Extension("AUTH")
	var auth smtp.Auth
	switch offered := strings.Fields(strings.ToUpper(how)); {
	case contains(offered, "PLAIN"):
		auth = smtp.PlainAuth("", s.username, s.password, host)
	case contains(offered, "LOGIN"):
		auth = &loginAuth{s.username, s.password}
	default:
		return fmt.Errorf("%w: it offers neither AUTH PLAIN nor AUTH LOGIN", errConfig)
	}
	if err := c.Auth(auth); err != nil {
		return fmt.Errorf("AUTH: %w", err)
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func (s *smtpClient) hand(c *smtp.Client, from *mail.Address, to []*mail.Address, text []byte) error {
	if err := c.Mail(from.Address); err != nil {
		return fmt.Errorf("MAIL: %w", err)
	}
	for i, a := range to {
		if err := c.Rcpt(a.Address); err != nil {
			return fmt.Errorf("RCPT of the address %d in to: %w", i+1, err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("DATA: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("DATA: %w", err)
	}
	if err := w.Close(); err != nil {
		return &errLetter{fmt.Errorf("DATA: %w", err)}
	}
	return nil
}

// loginAuth is AUTH LOGIN, which some servers offer instead of PLAIN. It says nothing on a connection in clear, other
// than to this machine.
type loginAuth struct{ username, password string }

func (a *loginAuth) Start(s *smtp.ServerInfo) (string, []byte, error) {
	if !s.TLS && s.Name != "localhost" && s.Name != "127.0.0.1" && s.Name != "::1" {
		return "", nil, fmt.Errorf("%w: no password is sent in clear", errConfig)
	}
	return "LOGIN", nil, nil
}

func (a *loginAuth) Next(asked []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	switch strings.ToLower(strings.TrimRight(string(asked), ": \x00")) {
	case "username", "user name":
		return []byte(a.username), nil
	case "password":
		return []byte(a.password), nil
	}
	return nil, errors.New("the mail server asks something unknown")
}
