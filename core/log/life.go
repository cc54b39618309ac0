package log

// Life is a time of a log that is over: its records carry that store id and epoch. A restore from a backup begins the
// next one.
type Life struct {
	StoreID string `json:"store_id"`
	Epoch   uint32 `json:"epoch"`
	ToSeq   uint64 `json:"to_seq"` // its last record
}
