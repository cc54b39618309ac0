package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/yett-dev/yett/core/store"
)

// A device on which somebody has signed in keeps a cookie that says so. It lets nobody in: it only counts that device's
// tries apart from everybody else's. It is signed with the operator's password hash, so a new password ends all of
// them, and nothing has to be kept for it.
const (
	deviceCookie = "__Host-yett-device"
	deviceFor    = 90 * 24 * time.Hour
	deviceID     = 16
)

// rememberDevice gives the browser a device cookie of an operator who has just signed in.
func (c *Console) rememberDevice(w http.ResponseWriter, r *http.Request, op store.Operator, now time.Time) {
	id := make([]byte, deviceID)
	if known, ok := c.device(r, op, now); ok {
		id = []byte(known)
	} else {
		c.set.Random(id)
	}
	value := binary.BigEndian.AppendUint64(id[:deviceID:deviceID], uint64(now.Unix()))
	value = append(value, deviceMark(op, value)...)
	http.SetCookie(w, &http.Cookie{Name: deviceCookie, Value: base64.RawURLEncoding.EncodeToString(value), Path: "/",
		MaxAge: int(deviceFor / time.Second), Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

// device is the id of the device that sent a request, if the operator has signed in on it before. For a name that
// nobody has, the work is the same and the answer is no.
func (c *Console) device(r *http.Request, op store.Operator, now time.Time) (id string, known bool) {
	found := r.CookiesNamed(deviceCookie)
	if len(found) != 1 {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(found[0].Value)
	if err != nil || len(raw) != deviceID+8+sha256.Size {
		return "", false
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(raw[deviceID:])), 0))
	same := hmac.Equal(raw[deviceID+8:], deviceMark(op, raw[:deviceID+8]))
	return string(raw[:deviceID]), same && op.Hash != "" && age >= -time.Minute && age < deviceFor
}

func deviceMark(op store.Operator, value []byte) []byte {
	key := sha256.Sum256([]byte("device\x00" + op.Hash))
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(op.Name + "\x00"))
	h.Write(value)
	return h.Sum(nil)
}
