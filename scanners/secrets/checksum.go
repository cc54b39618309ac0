package main

// Checksums that issuers put into their credentials. Where one fails, what looks like the credential is a sample, a
// typing error or cut short: it is reported with little confidence.

// checksums gives for a kind what tells whether a value of it is whole; a kind without an entry has no checksum, or
// none that its issuer describes.
var checksums = map[string]func(v []byte) bool{
	"YETT_API_KEY":       func(v []byte) bool { return crcBehind(v, 0, 67) },
	"GITHUB_PAT":         func(v []byte) bool { return len(v) != 40 || crcBehind(v, 4, 40) },
	"GITHUB_OAUTH_TOKEN": func(v []byte) bool { return len(v) != 40 || crcBehind(v, 4, 40) },
	"GITHUB_APP_TOKEN":   func(v []byte) bool { return len(v) != 40 || crcBehind(v, 4, 40) },
	"NPM_TOKEN":          func(v []byte) bool { return len(v) != 40 || crcBehind(v, 4, 40) },
	"PYPI_TOKEN":         wholeMacaroon,
	"NATS_SEED":          wholeSeed,
	"AGE_SECRET_KEY":     wholeBech32,
}

var crcTable = func() (table [256]uint32) {
	for i := range table {
		c := uint32(i)
		for range 8 {
			c = c>>1 ^ 0xedb88320*(c&1)
		}
		table[i] = c
	}
	return table
}()

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// crcBehind tells whether the last six of n bytes are the CRC32, in base 62, of those between from and there.
func crcBehind(v []byte, from, n int) bool {
	if len(v) != n {
		return false
	}
	crc := ^uint32(0)
	for _, c := range v[from : n-6] {
		crc = crcTable[byte(crc)^c] ^ crc>>8
	}
	crc = ^crc
	for i := n - 1; i >= n-6; i-- {
		if v[i] != base62[crc%62] {
			return false
		}
		crc /= 62
	}
	return true
}

// wholeMacaroon tells whether a token of PyPI ends as a macaroon of version 2 does: with a signature of 32 bytes.
func wholeMacaroon(v []byte) bool {
	plain, ok := decodeURL64(v[len("pypi-"):])
	n := len(plain)
	return ok && n > 60 && plain[n-34] == 6 && plain[n-33] == 32 && plain[n-35] == 0
}

// cutMacaroon tells whether a token of PyPI has its identifier, but lost its signature: it opens nothing.
func cutMacaroon(v []byte) bool {
	plain, _ := decodeURL64(v[len("pypi-") : len(v)-len(v[len("pypi-"):])%4])
	return len(plain) > 50 && plain[11] == 2 && plain[12] == 36 && plain[21] == '-' && !wholeMacaroon(v)
}

// decodeURL64 decodes the alphabet for URLs, without padding.
func decodeURL64(v []byte) (plain []byte, ok bool) {
	std := make([]byte, len(v))
	for i, c := range v {
		switch c {
		case '-':
			c = '+'
		case '_':
			c = '/'
		case '+', '/':
			return nil, false
		}
		std[i] = c
	}
	return decodeBase64(std)
}

// wholeSeed tells whether the checksum of a NATS seed holds: CRC16 (XMODEM) of 34 bytes in base 32, little-endian.
func wholeSeed(v []byte) bool {
	if len(v) != 58 {
		return false
	}
	var plain [36]byte
	acc, bits, n := uint32(0), 0, 0
	for _, c := range v {
		five := uint32(c - 'A')
		if isDigit(c) {
			five = uint32(c-'2') + 26
		}
		acc = acc<<5 | five
		if bits += 5; bits >= 8 {
			bits -= 8
			plain[n] = byte(acc >> bits)
			n++
		}
	}
	crc := uint16(0)
	for _, c := range plain[:34] {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return plain[34] == byte(crc) && plain[35] == byte(crc>>8)
}

const bech32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

// wholeBech32 tells whether the checksum of an age key holds.
func wholeBech32(v []byte) bool {
	sum := uint32(1)
	add := func(five uint32) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ five
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 != 0 {
				sum ^= g
			}
		}
	}
	split := len("AGE-SECRET-KEY-")
	for _, c := range v[:split] {
		add(uint32(lower(c)) >> 5)
	}
	add(0)
	for _, c := range v[:split] {
		add(uint32(lower(c)) & 31)
	}
	for _, c := range v[split+1:] {
		five := indexByte(bech32, c)
		if five < 0 {
			return false
		}
		add(uint32(five))
	}
	return sum == 1
}
