package store

import (
	"encoding/json"
	"fmt"
)

// The fields of a key's row, see row_fields.go. A number is never used for anything else.
const (
	keyID = iota + 1
	keyName
	keyEnvironment
	keyScopes
	keyPreset
	keyAgents
	keyCreatedAt
	keyCreatedBy
	keyExpiresAt
	keyNote
	keyMAC
	keyRevokedAt
	keyRevokedBy
	keyRoot
	keyAgain
	keyGrace
	keyLastUsed
	keyExplicit
)

// storedKey is what a key's row holds. Its JSON is that of rows of earlier versions.
type storedKey struct {
	*Key
	keyState
}

// appendRow writes the row.
func (k storedKey) appendRow(to []byte) (row []byte, err error) {
	to = appendText(append(to, rowVersion), keyID, k.ID)
	to = appendText(to, keyName, k.Name)
	to = appendText(to, keyEnvironment, k.Environment)
	to = appendTexts(to, keyScopes, k.Scopes)
	to = appendText(to, keyPreset, k.Preset)
	to = appendSome(to, keyAgents, k.Agents)
	if to, err = appendTime(to, keyCreatedAt, k.CreatedAt); err != nil {
		return nil, fmt.Errorf("created_at: %w", err)
	}
	to = appendText(to, keyCreatedBy, k.CreatedBy)
	if to, err = appendTime(to, keyExpiresAt, k.ExpiresAt); err != nil {
		return nil, fmt.Errorf("expires_at: %w", err)
	}
	to = appendText(to, keyNote, k.Note)
	if k.MAC != nil {
		to = appendBytes(to, keyMAC, k.MAC)
	}
	if to, err = appendTime(to, keyRevokedAt, k.RevokedAt); err != nil {
		return nil, fmt.Errorf("revoked_at: %w", err)
	}
	to = appendText(to, keyRevokedBy, k.RevokedBy)
	to = appendText(to, keyRoot, k.Root)
	to = appendFlag(to, keyAgain, k.Again)
	to = appendFlag(to, keyGrace, k.Grace)
	if to, err = appendTime(to, keyLastUsed, k.LastUsed); err != nil {
		return nil, fmt.Errorf("last_used_at: %w", err)
	}
	return appendFlag(to, keyExplicit, k.Explicit), nil
}

// key reads a row. The key is not ready yet.
func (r *rowReader) key(row []byte) (k storedKey, err error) {
	fields, isJSON, err := rowOpen(row)
	if err != nil {
		return k, err
	}
	k.Key = r.newKey()
	if isJSON {
		is := k // in memory of its own, because a decoder gets its address
		err := json.Unmarshal(row, &is)
		is.ExpiresAt = inYears(is.ExpiresAt)
		return is, err
	}
	if err := r.values.split(fields, keyExplicit); err != nil {
		return k, err
	}
	for number := keyID; number <= keyExplicit; number++ {
		if err := r.keyField(&k, number, r.values[number]); err != nil {
			return k, fmt.Errorf("field %d of its row: %w", number, err)
		}
	}
	if k.ID == "" {
		return k, errNoID
	}
	return k, nil
}

func (r *rowReader) keyField(k *storedKey, number int, value []byte) (err error) {
	if value == nil {
		return nil
	}
	switch number {
	case keyScopes, keyMAC, keyAgain, keyGrace, keyExplicit:
	default:
		if len(value) == 0 {
			return errZeroField
		}
	}
	switch number {
	case keyID:
		k.ID = r.own(value)
	case keyName:
		k.Name = r.own(value)
	case keyEnvironment:
		k.Environment = r.common(value)
	case keyScopes:
		k.Scopes, err = r.commonTexts(value)
	case keyPreset:
		k.Preset = r.common(value)
	case keyAgents:
		k.Agents, err = r.texts(value, r.own)
	case keyCreatedAt:
		k.CreatedAt, err = readTime(value)
	case keyCreatedBy:
		k.CreatedBy = r.common(value)
	case keyExpiresAt:
		k.ExpiresAt, err = readTime(value)
	case keyNote:
		k.Note = r.own(value)
	case keyMAC:
		k.MAC = r.ownBytes(value)
	case keyRevokedAt:
		k.RevokedAt, err = readTime(value)
	case keyRevokedBy:
		k.RevokedBy = r.common(value)
	case keyRoot:
		k.Root = r.own(value)
	case keyAgain:
		k.Again, err = readFlag(value)
	case keyGrace:
		k.Grace, err = readFlag(value)
	case keyLastUsed:
		k.LastUsed, err = readTime(value)
	case keyExplicit:
		k.Explicit, err = readFlag(value)
	}
	return err
}
