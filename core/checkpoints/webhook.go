package checkpoints

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Webhook is a receiver of checkpoints. Each message is signed as Standard Webhooks says.
type Webhook struct {
	Name  string
	URL   string
	Key   []byte         // that signs
	Roots *x509.CertPool // who signs its certificate; nil: the machine's authorities
}

// receiver is a webhook that gets checkpoints.
type receiver struct {
	k    *Keeper
	key  []byte
	http *client
}

func newReceiver(k *Keeper, w Webhook) *receiver {
	return &receiver{k: k, key: w.Key, http: newClient(w.URL, w.Roots)}
}

// The types of messages.
const (
	typeCheckpoint = "yett.audit.checkpoint"
	typeQuery      = "yett.audit.checkpoint_query"
)

type message struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

type checkpointData struct {
	StoreID    string `json:"store_id"`
	Origin     string `json:"origin"`
	Size       uint64 `json:"size"`
	Root       string `json:"root"`
	Checkpoint string `json:"checkpoint"`
}

type queryData struct {
	StoreID string `json:"store_id"`
	Origin  string `json:"origin"`
}

// hold asks for the newest checkpoint that the receiver has. It is part of destination.
func (r *receiver) hold(ctx context.Context) (note string, err error) {
	a, err := r.send(ctx, rand.Text(), message{typeQuery, queryData{r.k.store(), r.k.set.Origin}})
	if err != nil {
		return "", err
	}
	compared, err := r.compare(a)
	if err != nil || compared {
		return "", err
	}
	return fmt.Sprintf("names no checkpoint of this log (%s): the log is not held against it", r.k.set.Origin), nil
}

// give is part of destination. The same checkpoint has the same id.
func (r *receiver) give(ctx context.Context, c signed) error {
	sum := sha256.Sum256([]byte(c.text))
	a, err := r.send(ctx, hex.EncodeToString(sum[:16]), message{typeCheckpoint, checkpointData{r.k.store(), r.k.set.Origin,
		c.size, c.root.String(), c.text}})
	if err == nil {
		_, err = r.compare(a)
	}
	return err
}

// compare holds the log against the checkpoint in an answer. Another answer compares nothing.
func (r *receiver) compare(a *answer) (compared bool, err error) {
	c, err := r.k.newest(a.body)
	if err != nil || c == nil {
		return false, nil
	}
	return true, agrees(r.k.set.Log, c, "take the webhook out of audit.checkpoints.webhooks and keep what it has")
}

// send posts a message, and refuses every answer but 2xx.
func (r *receiver) send(ctx context.Context, id string, m message) (*answer, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	text := string(bytes.TrimSuffix(body.Bytes(), []byte("\n")))
	stamp := strconv.FormatInt(r.k.set.Now().Unix(), 10)
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(id + "." + stamp + "." + text))
	a, err := r.http.post(ctx, http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Webhook-Id": {id},
		"Webhook-Timestamp": {stamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}, text)
	if err == nil && (a.status < 200 || a.status > 299) {
		err = r.http.refusal(a)
	}
	return a, err
}

func (r *receiver) close() { r.http.close() }
