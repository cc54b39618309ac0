package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// The fields of a grant's row, see row_fields.go. A number is never used for anything else.
const (
	grantID = iota + 1
	grantAgent
	grantTool
	grantOperation
	grantSession
	grantRule
	grantRules
	grantSteps
	grantPolicy
	grantArgs
	grantMaxUses
	grantCreated
	grantExpires
	grantIssuedBy
	grantIssuers
	grantToken
	grantNote
	grantRevokedAt
	grantRevokedBy
)

// storedGrant is what a grant's row holds. Its JSON is that of rows of earlier versions.
type storedGrant struct {
	*Grant
	grantState
}

// appendRow writes the row.
func (g storedGrant) appendRow(to []byte) (row []byte, err error) {
	to = appendText(append(to, rowVersion), grantID, g.ID)
	to = appendText(to, grantAgent, g.AgentID)
	to = appendText(to, grantTool, g.ToolPattern)
	to = appendText(to, grantOperation, g.Operation)
	to = appendText(to, grantSession, g.SessionID)
	to = appendText(to, grantRule, g.RuleID)
	to = appendSome(to, grantRules, g.Rules)
	to = appendSome(to, grantSteps, g.Steps)
	to = appendText(to, grantPolicy, g.Policy)
	to = appendText(to, grantArgs, g.ArgsMatch)
	to = appendNumber(to, grantMaxUses, g.MaxUses)
	if to, err = appendTime(to, grantCreated, g.Created); err != nil {
		return nil, fmt.Errorf("created_at: %w", err)
	}
	if to, err = appendTime(to, grantExpires, g.Expires); err != nil {
		return nil, fmt.Errorf("expires_at: %w", err)
	}
	to = appendText(to, grantIssuedBy, g.IssuedBy)
	to = appendTexts(to, grantIssuers, g.Issuers)
	to = appendText(to, grantToken, g.Token)
	to = appendText(to, grantNote, g.Note)
	if to, err = appendTime(to, grantRevokedAt, g.RevokedAt); err != nil {
		return nil, fmt.Errorf("revoked_at: %w", err)
	}
	return appendText(to, grantRevokedBy, g.RevokedBy), nil
}

// grant reads a row. What methods tell of the grant is not set yet.
func (r *rowReader) grant(row []byte) (storedGrant, error) {
	g, isJSON, err := r.openGrant(row)
	if err == nil && !isJSON {
		err = r.grantRest(&g)
	}
	if err != nil {
		return g, err
	}
	r.kept()
	return g, nil
}

// liveGrant reads a row, and gives nil if the grant has ended: of such a row, of which there may be far more, nothing
// else is read.
func (r *rowReader) liveGrant(row []byte, uses uint64, now time.Time) (*Grant, error) {
	g, isJSON, err := r.openGrant(row)
	if err != nil {
		return nil, err
	}
	for _, number := range [...]int{grantMaxUses, grantExpires, grantRevokedAt} {
		if isJSON {
			break
		}
		if err := r.grantField(&g, number, r.values[number]); err != nil {
			return nil, fmt.Errorf("field %d of its row: %w", number, err)
		}
	}
	g.uses.Store(uses)
	g.ready(g.grantState)
	if g.Status(now) != "live" {
		*g.Grant = Grant{}
		return nil, nil
	}
	if !isJSON {
		err = r.grantRest(&g)
	}
	if err != nil {
		return nil, err
	}
	r.kept()
	return g.Grant, nil
}

// openGrant finds the values of a row, and gives an empty grant for them; or the grant of a row in JSON.
func (r *rowReader) openGrant(row []byte) (g storedGrant, isJSON bool, err error) {
	fields, isJSON, err := rowOpen(row)
	if err != nil {
		return g, false, err
	}
	g.Grant = r.newGrant()
	if isJSON {
		is := g // in memory of its own, because a decoder gets its address
		err := json.Unmarshal(row, &is)
		is.Expires = inYears(is.Expires)
		return is, true, err
	}
	if err := r.values.split(fields, grantRevokedBy); err != nil {
		return g, false, err
	}
	if r.values[grantID] == nil {
		return g, false, errNoID
	}
	return g, false, nil
}

func (r *rowReader) grantRest(g *storedGrant) error {
	for number := grantID; number <= grantRevokedBy; number++ {
		if err := r.grantField(g, number, r.values[number]); err != nil {
			return fmt.Errorf("field %d of its row: %w", number, err)
		}
	}
	return nil
}

func (r *rowReader) grantField(g *storedGrant, number int, value []byte) (err error) {
	if value == nil {
		return nil
	}
	if len(value) == 0 && number != grantIssuers {
		return errZeroField
	}
	switch number {
	case grantID:
		g.ID = r.own(value)
	case grantAgent:
		g.AgentID = r.own(value)
	case grantTool:
		g.ToolPattern = r.common(value)
	case grantOperation:
		g.Operation = r.common(value)
	case grantSession:
		g.SessionID = r.own(value)
	case grantRule:
		g.RuleID = r.common(value)
	case grantRules:
		g.Rules, err = r.commonTexts(value)
	case grantSteps:
		g.Steps, err = r.commonTexts(value)
	case grantPolicy:
		g.Policy = r.common(value)
	case grantArgs:
		g.ArgsMatch = r.common(value)
	case grantMaxUses:
		g.MaxUses, err = readNumber(value)
	case grantCreated:
		g.Created, err = readTime(value)
	case grantExpires:
		g.Expires, err = readTime(value)
	case grantIssuedBy:
		g.IssuedBy = r.common(value)
	case grantIssuers:
		g.Issuers, err = r.commonTexts(value)
	case grantToken:
		g.Token = r.own(value)
	case grantNote:
		g.Note = r.own(value)
	case grantRevokedAt:
		g.RevokedAt, err = readTime(value)
	case grantRevokedBy:
		g.RevokedBy = r.common(value)
	}
	return err
}
