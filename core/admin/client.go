package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/yett-dev/yett/sdk"
)

// ErrNoServer says that no running server was found for a data directory.
var ErrNoServer = errors.New("no running server")

// Client talks to the admin socket of the server that runs on a data directory.
type Client struct {
	data string
	http *http.Client
	dir  *os.File
}

// Dial finds the server on that data directory. The error is ErrNoServer when none runs.
func Dial(data string) (*Client, error) {
	dir, err := os.Open(filepath.Join(data, socketDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w on %s: start one with yett serve or yett dev --data", ErrNoServer, data)
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("admin socket: only the user that runs the server on %s, and root, may use it", data)
	}
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	c := &Client{data: data, dir: dir}
	c.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", short(dir))
		}}}
	return c, nil
}

// Close gives the directory back.
func (c *Client) Close() error { return c.dir.Close() }

// Do sends in as JSON (nil: nothing) and reads the answer into out. A refusal is an *sdk.Error.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("admin socket: the answer cannot be read: %w", err)
	}
	return nil
}

// Stream copies the answer to w. A cut answer is an error.
func (c *Client) Stream(ctx context.Context, path string, w io.Writer) error {
	resp, err := c.send(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("admin socket: the answer was cut: %w", err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, &body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return nil, fmt.Errorf("%w on %s: start one with yett serve or yett dev --data", ErrNoServer, c.data)
		}
		return nil, fmt.Errorf("admin socket: %w (it answers the server's own user and root, and no process that the "+
			"server started)", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var p struct{ Code, Detail, Field string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&p); err != nil || p.Code == "" {
		return nil, fmt.Errorf("admin socket: status %d", resp.StatusCode)
	}
	return nil, &sdk.Error{Code: sdk.Code(p.Code), Msg: p.Detail, Field: p.Field}
}
