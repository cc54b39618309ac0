package prochost

import (
	"errors"
	"strings"

	"github.com/yett-dev/yett/core/chain"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/protobuf/proto"
)

// What a conformance test asks, so that it passes nothing that a gateway takes for an error.

// WrongInfo says which rule an answer of Info breaks; nil: none.
func WrongInfo(r *pluginv1.InfoResponse) error {
	for _, k := range []Kind{Authorizer, Scanner, Subscriber} {
		for _, named := range r.GetKinds() {
			if named != k.wire() {
				continue
			}
			// with connect, since what the operator gives it is not what is asked
			if _, err := describe(r, &Spec{Name: "rules", Kind: k, Connect: "unix:///rules", Config: []byte("{}")}); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), infoSays))
			}
		}
	}
	return nil
}

// WrongAnswer says which rule the answer to a check breaks; nil: none. One that says that it failed breaks none.
func WrongAnswer(r *pluginv1.CheckResponse) error {
	raw, err := proto.Marshal(r)
	if err != nil {
		return err
	}
	var a answer
	if err := a.decode(raw); err != nil {
		return err
	}
	if a.failure != "" {
		return nil
	}
	_, err = a.verdict()
	return bare(err)
}

// WrongFindings says which rule the answer to a scan of text breaks; nil: none. One that says that it failed breaks
// none.
func WrongFindings(r *pluginv1.ScanResponse, declared []*pluginv1.FindingKind, text string) error {
	if r.GetError() != "" {
		return nil
	}
	kinds := map[string]string{}
	for _, k := range declared {
		kinds[k.GetKind()] = k.GetKind()
	}
	_, err := findings(r, "rules", kinds, &chain.Input{Text: text})
	return bare(err)
}

// bare leaves out what every such error begins with.
func bare(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), ErrAnswer.Error()+": "))
}
