package main

// What everybody knows is no secret. Values stand here as FNV-1a hashes, so that this file holds none of them.

// exampleKind is the kind of a value from a vendor's documentation: low, and left in place, since it opens nothing.
const exampleKind = "DOCUMENTED_EXAMPLE"

// documented are the sample credentials that AWS, Stripe, Slack, Azure's storage emulator, jwt.io and the RFCs
// on HTTP authentication and OAuth show.
var documented = map[uint64]bool{
	0x0e627699b98376d0: true,
	0x7da4539f17de7061: true,
	0x47e084a1e49de508: true,
	0x7699c294beebad32: true,
	0x8f635ee3a1e6f45d: true,
	0xb3439b3c6b98e9a4: true,
	0x67e733c2f9035757: true,
	0x43f62e8bcdd84601: true,
	0x15f87945422cbea3: true,
	0x2e2380ac3dc2ea0b: true,
	0x8b8af47167475bcc: true,
	0xbdfe31cdb75eb895: true,
	0x846b2a1e2fad7fcb: true,
	0xecc1a4474851bc28: true,
	0xbb65956c4b8b34bf: true,
	0xdc8d8ca0645472e9: true,
	0x9617ea5685ae57ea: true,
	0x273f5e023867ba98: true,
	0x4f459807254f1ee7: true,
}

// publishedKeys are values that browsers and sample projects carry with them. They are not reported.
var publishedKeys = map[uint64]bool{
	0xc800bf2100a21c67: true,
	0x6acbd824bd32bbd4: true,
	0x29a336c7244f48dd: true,
	0x08b545962adc7d8b: true,
	0x01f98b38d15629f6: true,
	0x99b2726346a1e92a: true,
	0x12113c2e6979f447: true,
	0x828818f833257868: true,
	0x6835e0f288832a40: true,
	0x816cd10fdb11ead0: true,
	0x113c8681ebde063f: true,
	0xdb9422f1dd332dcc: true,
	0x515cb771a4238032: true,
	0xe754678ea2b14ef1: true,
	0xc73f1e61952e6987: true,
	0x294c63f8344d5df1: true,
	0x1a3e1c90ee6698a0: true,
	0x415503177a5c10e1: true,
}

// published tells whether v is a credential that everybody has.
func published(v []byte) bool { return publishedKeys[fnv(v)] }

func fnv(v []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range v {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
