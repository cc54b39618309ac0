package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
	"github.com/yett-dev/yett/core/cosign"
)

// Checkpoints says where signed checkpoints of the log go.
type Checkpoints struct {
	Files     []Path              `koanf:"files" restart:"true" example:"[\"/mnt/other/yett.checkpoints\"]" doc:"Files that get a signed checkpoint of the log each time, at their end. Put one on another machine or disk: only there can be seen that the whole data directory was put back to an earlier time. A start is refused when the log is not the one that was signed, or ends earlier."`
	Webhooks  []CheckpointWebhook `koanf:"webhooks" empty:"ok" most:"16" restart:"true" doc:"Receivers that are posted each checkpoint, and asked at a start for the newest that they have. A start is refused when the log is not the one of that checkpoint, or ends earlier; not when a receiver cannot be asked."`
	Witnesses []CheckpointWitness `koanf:"witnesses" empty:"ok" most:"16" restart:"true" doc:"Witnesses (C2SP tlog-witness) that cosign each checkpoint. Files and webhooks get it with the cosignatures. A start is refused when a witness has cosigned another log, or more records; not when it cannot be asked."`
	Every     Duration            `koanf:"every" default:"1m" min:"1s" max:"24h" restart:"true" doc:"How often, when records have come."`
}

// CheckpointWebhook is one receiver of checkpoints.
type CheckpointWebhook struct {
	Name   string    `koanf:"name" req:"true" format:"name" example:"archive" doc:"Name in messages and metrics."`
	URL    string    `koanf:"url" req:"true" example:"https://archive.example.com/yett" doc:"Where checkpoints are posted. Off loopback only https. Redirects are not followed, and no proxy is taken from the environment."`
	Secret SecretRef `koanf:"secret" doc:"Secret that signs each message as Standard Webhooks says: whsec_ and 24 to 64 bytes in base64. Required."`
	CA     Path      `koanf:"ca" example:"/etc/yett/archive-ca.crt" doc:"PEM file with the authorities that sign the receiver's certificate; without it the machine's own."`
	key    []byte
}

// Key is what signs. It is printed nowhere.
func (w CheckpointWebhook) Key() []byte { return w.key }

// CheckpointWitness is one witness of the log.
type CheckpointWitness struct {
	URL       string `koanf:"url" req:"true" example:"https://witness.example.com" doc:"Its submission prefix: checkpoints are posted to URL/add-checkpoint. Off loopback only https. Redirects are not followed, and no proxy is taken from the environment."`
	PublicKey string `koanf:"public_key" req:"true" example:"witness.example.com/w1+833da816+BAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f" doc:"Its verifier key (NAME+ID+KEY), of type cosignature/v1 with Ed25519. The name is used in messages and metrics."`
	CA        Path   `koanf:"ca" example:"/etc/yett/witness-ca.crt" doc:"PEM file with the authorities that sign the certificate of the witness; without it the machine's own."`
	key       *cosign.Key
}

// Key is what its cosignatures are checked with.
func (w CheckpointWitness) Key() *cosign.Key { return w.key }

// finishCheckpoints reads the secrets, and checks where checkpoints may go.
func (l *loader) finishCheckpoints(c *Checkpoints) {
	files := map[Path]bool{}
	for i, path := range c.Files {
		if files[path] {
			l.Report.Errorf("audit.checkpoints.files["+strconv.Itoa(i)+"]", "%s is there already", path)
		}
		files[path] = true
	}
	l.finishWitnesses(c)
	first := map[string]string{}
	for i := range c.Webhooks {
		w, key := &c.Webhooks[i], "audit.checkpoints.webhooks["+strconv.Itoa(i)+"]"
		if at, twice := first[w.Name]; twice {
			l.Report.Errorf(strict.Join(key, "name"), "%s is the name of %s already", strict.Literal(w.Name), at)
		}
		first[w.Name] = key
		l.checkpointURL(strict.Join(key, "url"), w.URL, w.CA, strict.Join(key, "ca"))
		if !l.resolveSecret(&w.Secret, strict.Join(key, "secret")) {
			continue
		}
		var err error
		if w.key, err = webhookKey(w.Secret.value); err != nil {
			l.Report.Errorf(strict.Join(key, "secret"), "%s", err)
		}
	}
}

func (l *loader) finishWitnesses(c *Checkpoints) {
	first := map[string]string{}
	for i := range c.Witnesses {
		w, key := &c.Witnesses[i], "audit.checkpoints.witnesses["+strconv.Itoa(i)+"]"
		l.checkpointURL(strict.Join(key, "url"), w.URL, w.CA, strict.Join(key, "ca"))
		if strings.Contains(w.URL, "?") {
			l.Report.Errorf(strict.Join(key, "url"), "must have no query: /add-checkpoint is put behind it")
		}
		k, err := cosign.ParseKey(w.PublicKey)
		if err != nil {
			l.Report.Errorf(strict.Join(key, "public_key"), "%s", err)
			continue
		}
		if at, twice := first[k.Name()]; twice {
			l.Report.Errorf(strict.Join(key, "public_key"), "%s is the name of %s already", strict.Literal(k.Name()), at)
		}
		first[k.Name()], w.key = key, k
	}
}

// The sizes of a key of Standard Webhooks, bytes.
const leastWebhookKey, mostWebhookKey = 24, 64

// webhookKey reads a secret of Standard Webhooks. The error never quotes it.
func webhookKey(text string) ([]byte, error) {
	coded, ok := strings.CutPrefix(text, "whsec_")
	key, err := base64.StdEncoding.DecodeString(coded)
	if !ok || err != nil {
		return nil, errors.New("the secret must be whsec_ and standard base64; (printf whsec_; openssl rand -base64 32) " +
			"makes one")
	}
	if len(key) < leastWebhookKey || len(key) > mostWebhookKey {
		return nil, fmt.Errorf("the secret holds %d bytes, expected %d to %d; (printf whsec_; openssl rand -base64 32) "+
			"makes one", len(key), leastWebhookKey, mostWebhookKey)
	}
	return key, nil
}

// checkpointURL checks an address that checkpoints are posted to.
func (l *loader) checkpointURL(key, text string, ca Path, caKey string) {
	r := l.Report
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "":
		// not quoted: it may hold a token
		r.Errorf(key, "must be a URL such as https://archive.example.com/yett")
	case u.User != nil:
		r.Errorf(key, "has a name or a password in it: take them out; messages are signed")
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "0")):
		r.Errorf(key, "%s is not a loopback address; use https", strict.Literal(u.Host))
	case u.Scheme == "http" && ca != "":
		r.Errorf(caKey, "needs an https URL")
	}
}
