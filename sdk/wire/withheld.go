package wire

// Withheld says why something is kept as its digest only and shown nowhere.
type Withheld struct {
	Cause   string `json:"cause" doc:"\"timeout\", \"unavailable\" or \"error\": a scanner did not finish. \"malformed\": masking would break the JSON. \"too_deep\": the part has escapes within escapes, more than 8 deep. \"too_many\": a scanner found 256 or more secrets in the part. \"api_key\": the part contains the value of an API key. \"too_large\": the part is too long to be masked. \"no_scanner\": no scanner is configured."`
	Scanner string `json:"scanner,omitempty" doc:"The step whose scanner did not finish."`
}

// JSON is the object.
func (h *Withheld) JSON() []byte {
	o := Object(nil)
	o.Str("cause", h.Cause)
	o.Opt("scanner", h.Scanner)
	return o.Close()
}

// Stand is the object that stands in the place of what is withheld.
func (h *Withheld) Stand() []byte {
	o := Object(nil)
	o.Str("withheld", h.Cause)
	o.Opt("scanner", h.Scanner)
	return o.Close()
}

// String says it in a line.
func (h *Withheld) String() string {
	if h.Scanner == "" {
		return h.Cause
	}
	return h.Cause + ", scanner " + h.Scanner
}
