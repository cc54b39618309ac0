package main

// topic is a set of subjects that words near a number speak of.
type topic uint64

const (
	ctxPhone topic = 1 << iota
	ctxCard
	ctxBank
	ctxRouting
	ctxSSN
	ctxTax
	ctxPassport
	ctxLicence
	ctxID
	ctxBirth
	ctxHealth
	ctxPlate
	ctxZip
	ctxCrypto
	ctxDoctor
	ctxCompany
	ctxVoter
	ctxSwift
	ctxAddress
	ctxName
	ctxDevice
	ctxMember
	softPhone
	softLicence
	softPlate
	inUS
	inUK
	inDE
	inFR
	inES
	inIT
	inPL
	inIN
	inBR
	inAU
	inCA
	inSG
	inJP
	inKR
	inNL
	inBE
	inSE
	inFI
	inNO
	inDK
	inCH
	inAT
	inPT
	inTR
	inMX
	inCN
	inZA
	inNG
	inTH
	inPH
	inNZ
	inOther
)

const anyCountry = ^topic(0) &^ (inUS - 1)

// contextWords are single words; their plurals and compounds with "number" count too.
var contextWords = wordTable(map[topic]string{
	ctxPhone: "phone telephone tel mobile cellphone cellular fax sms whatsapp handy telefon téléphone " +
		"telefono teléfono telefone celular móvil mobil telefoon puhelin telefonnummer " +
		"landline hotline rufnummer telegram msisdn ring móvel gsm",
	ctxCard: "card credit debit visa mastercard amex discover diners maestro cc pan kreditkarte kredit karte carte " +
		"tarjeta cartao cartão carta cvv creditcard cardholder",
	ctxBank: "bank account acct iban konto kontonummer compte cuenta conto conta banking deposit checking savings " +
		"wire " +
		"rekening",
	ctxRouting:    "routing aba rtn transit fedwire ach",
	ctxSSN | inUS: "ssn ssns social",
	ctxTax: "tax taxpayer tin fiscal steuer vat tva iva taxid taxation rfc cuit steuerid " +
		"identifikationsnummer",
	ctxPassport: "passport passports reisepass passeport pasaporte passaporto passaporte paspoort " +
		"paszport travel pasaport",
	ctxLicence: "driver drivers driving dl führerschein fuehrerschein " +
		"fahrerlaubnis permis patente licencia conducir ehliyet dlno",
	ctxID: "identity identification national citizen citizenship resident permanent ausweis " +
		"identité identidad ident identità identitet civil civic nid cnic nik",
	ctxBirth: "born birth birthday dob birthdate birthdays dateofbirth geboren geburtsdatum geburtstag " +
		"né née naissance nacido nacida nacimiento nato nata nascita nascimento geboortedatum född urodzenia doğum",
	ctxHealth: "medical health patient mrn insurance medicare beneficiary hospital chart krankenkasse " +
		"versicherten krankenversicherung krankenversicherungsnummer krankenversichertennummer " +
		"versicherungsnummer versichertennummer kvnr gesundheitskarte gkv egk nhs hicn",
	ctxPlate: "vehicle plate plates kennzeichen kfz plaka matrícula " +
		"immatriculation targa nummernschild kraftfahrzeug fahrzeug taşıt araç",
	ctxZip: "zip zipcode postcode postal plz postleitzahl postnummer kodpocztowy",
	ctxCrypto: "wallet btc bitcoin ethereum eth crypto ltc litecoin dogecoin xrp monero usdt tron " +
		"solana blockchain",
	ctxDoctor: "npi dea provider physician prescriber doctor practitioner certificate prescription lanr " +
		"bsnr arzt arztnummer betriebsstätte betriebsstättennummer praxis nurse " +
		"vertragsarzt hausarzt facharzt kassenarzt kbv rezept",
	ctxCompany: "company corporation business org enterprise employer brn uen organisation organization " +
		"handelsregister registergericht amtsgericht handelsregisternummer firma " +
		"gmbh hrb hra cnpj siret siren gst",
	ctxVoter | inIN: "voter epic elector electoral",
	ctxSwift:        "swift bic swiftcode",
	ctxAddress: "address street lives located ship shipping deliver delivery adresse dirección mailing " +
		"residence home residing",
	softPhone:           "call calls dial reach messages message cell portable signal text ring contact sms",
	softLicence:         "license licence licenses licences",
	softPlate:           "car registration registered reg truck lorry cars",
	ctxName:             "name",
	ctxDevice:           "imei device serial handset",
	ctxMember:           "member membership policy subscriber",
	ctxTax | inUS:       "itin ein fein employer irs",
	ctxHealth | inUK:    "nhs",
	ctxTax | inUK:       "nino utr hmrc",
	ctxID | inPL:        "pesel polish polski dowód",
	ctxTax | inPL:       "nip",
	ctxCompany | inPL:   "regon",
	ctxID | inIN:        "aadhaar aadhar uidai",
	ctxTax | inIN:       "gstin pan gst",
	inIN:                "indian india",
	ctxID | inBR:        "cpf rg",
	ctxCompany | inBR:   "cnpj",
	inBR:                "brazil brasil brazilian",
	ctxTax | inAU:       "tfn",
	ctxCompany | inAU:   "abn acn",
	inAU:                "australia australian",
	ctxID | inCA:        "sin",
	inCA:                "canada canadian",
	ctxID | inSG:        "nric",
	ctxCompany | inSG:   "uen",
	inSG:                "singapore fin",
	inJP:                "japan japanese",
	inKR:                "korea korean",
	ctxID | inKR:        "rrn frn jumin",
	ctxCompany | inKR:   "brn",
	ctxID | inNL:        "bsn burgerservicenummer sofinummer",
	ctxID | inBE:        "rijksregisternummer rijksregister nn insz niss",
	ctxID | inSE:        "personnummer personnr samordningsnummer swedish",
	ctxCompany | inSE:   "organisationsnummer orgnummer orgnr företagsnummer",
	inSE:                "svensk svenskt svenska",
	ctxID | inFI:        "hetu henkilötunnus personbeteckning finnish",
	ctxID | inNO:        "fødselsnummer fodselsnummer personnummer norwegian",
	ctxID | inDK:        "cpr cprnr danish",
	ctxID | inCH:        "ahv avs",
	ctxID | inAT:        "svnr sozialversicherungsnummer sozialversicherung sv",
	ctxTax | inPT:       "nif contribuinte",
	ctxTax | inES:       "nif cif",
	ctxID | inES:        "dni nie spanish",
	ctxID | inTR:        "kimlik tckn tc vatandaşlık turkish türk",
	inTR:                "turkey türkiye turkish",
	ctxID | inMX:        "curp",
	ctxTax | inMX:       "rfc",
	inMX:                "mexico mexican méxico",
	ctxID | inCN:        "chinese china 身份证 身分證",
	ctxID | inZA:        "rsa sa",
	ctxID | inNG:        "nin nimc nigerian nigeria bvn",
	ctxID | inTH:        "tnin thai thailand เลขประจำตัวประชาชน เลขบัตรประชาชน",
	ctxTax | inPH:       "tin bir",
	ctxID | inKR | inUK: "주민등록번호 주민번호 외국인등록번호",
	ctxLicence | inKR:   "운전면허",
	ctxPassport | inKR:  "여권",
	ctxID | inJP:        "マイナンバー 個人番号",
	ctxPhone | inJP:     "電話",
	ctxPhone | inCN:     "电话 手机",
	ctxPhone | inKR:     "전화",
	ctxPhone | inOther:  "телефон тел",
	ctxID | inFR:        "nir insee sécurité sociale",
	ctxID | inDE: "personalausweis personalausweisnummer sozialversicherung rentenversicherung " +
		"rentenversicherungsnummer rvnr sozialversicherungsnummer",
	ctxTax | inDE: "steuernummer steueridentifikationsnummer steueridentifikation steuerbescheid " +
		"einkommensteuer mehrwertsteuer ust idnr ustid umsatzsteuer finanzamt",
	ctxID | inIT:     "codice fiscale carta identità",
	ctxTax | inIT:    "partita piva",
	ctxTax | inNZ:    "ird",
	ctxHealth | inNZ: "nhi",
	ctxID | inOther: "oib jmbg emso cnp egn rodné isikukood pps ppsn cuil cuit dni rut cedula cédula nik cnic " +
		"nric " +
		"mykad hkid 身份證 snils inn снилс инн emirates iqama תעודת amka afm",
	ctxZip | inCN: "邮编",
})

// foreign are the words of contextWords in scripts that put no spaces between words.
var foreign []string

func wordTable(lists map[topic]string) map[string]topic {
	table := map[string]topic{}
	for mask, list := range lists {
		for i := 0; i < len(list); {
			end := i
			for end < len(list) && list[end] != ' ' {
				end++
			}
			if end > i {
				table[list[i:end]] |= mask
				if list[i] >= 0xe0 {
					foreign = append(foreign, list[i:end])
				}
			}
			i = end + 1
		}
	}
	return table
}

// How far words count, in bytes.
const (
	contextBefore = 72
	contextAfter  = 32
	softBefore    = 28
)

// around collects what the words near t[start:end] speak of.
func (s *scan) around(start, end int) topic {
	if s.ctxStart == start && s.ctxEnd == end {
		return s.ctx
	}
	from, to := max(0, start-contextBefore), min(len(s.t), end+contextAfter)
	for from > 0 && from < start && isWord(s.t[from-1]) {
		from++
	}
	s.ctxStart, s.ctxEnd = start, end
	s.ctx = topics(s.t[from:start]) | topics(s.t[end:to])
	if s.ctx&(softPhone|softLicence|softPlate) != 0 {
		near := topics(s.t[max(from, start-softBefore):start])
		s.ctx |= hardened(near)
	}
	return s.ctx
}

// hardened turns words of everyday speech, which count only close before a number, into the topics they then stand for.
func hardened(near topic) (t topic) {
	if near&softPhone != 0 {
		t |= ctxPhone
	}
	if near&softLicence != 0 {
		t |= ctxLicence
	}
	if near&softPlate != 0 {
		t |= ctxPlate
	}
	return t
}

// known are the words of contextWords.
var known = makeWordSet(contextWords)

const maxWord = 64

// reader is a word on its way through topics: its letters, small, and the hash of each of its beginnings.
type reader struct {
	word [maxWord]byte
	hash [maxWord]uint32
	n    int
}

func (r *reader) put(c byte) {
	if r.n == maxWord {
		return
	}
	h := hashSeed
	if r.n > 0 {
		h = r.hash[r.n-1]
	}
	c = lower(c)
	r.word[r.n], r.hash[r.n] = c, (h^uint32(c))*hashPrime
	r.n++
}

var reading reader

// Classes of bytes for reading words.
const (
	notLetter = iota
	smallLetter
	capitalLetter
	farLetter // of a script beyond ASCII
)

var letterClass = func() (table [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case isLower(b):
			table[c] = smallLetter
		case isUpper(b):
			table[c] = capitalLetter
		case b >= 0x80:
			table[c] = farLetter
		}
	}
	return table
}()

// beginnings tells of three bytes with which a word begins, a short word's last ones being zero, whether it may be one
// of contextWords. Most words are none, and are read no further.
type beginnings [1 << 12]bool

func beginning(a, b, c byte) int { return (int(a)*31*31 + int(b)*31 + int(c)) & (1<<12 - 1) }

func (t *beginnings) add(w string) {
	if len(w) > 2 {
		t[beginning(w[0], w[1], w[2])] = true
		return
	}
	t[beginning(w[0], w[1], 0)] = true
	for _, ending := range wordEndings { // ccnumber
		t[beginning(w[0], w[1], ending[0])] = true
	}
}

var anyBeginning, birthBeginning = func() (all, birth beginnings) {
	for w, mask := range contextWords {
		all.add(w)
		if mask&ctxBirth != 0 {
			birth.add(w)
		}
	}
	return all, birth
}()

// topics reads words: runs of letters, cut where a small letter meets a capital as in phoneNumber.
func topics(t []byte) (found topic) { return topicsOf(t, &anyBeginning) }

// topicsOf is topics for the words with such a beginning.
func topicsOf(t []byte, may *beginnings) (found topic) {
	for i := 0; i < len(t); {
		class := letterClass[t[i]]
		if class == notLetter {
			i++
			continue
		}
		from := i
		for i++; i < len(t); i++ {
			next := letterClass[t[i]]
			if next == notLetter || next == capitalLetter && class == smallLetter {
				break
			}
			class = next
		}
		if i-from < 2 {
			continue
		}
		if t[from] < 0xe0 {
			third := byte(0)
			if i-from > 2 {
				third = lower(t[from+2])
			}
			if !may[beginning(lower(t[from]), lower(t[from+1]), third)] {
				continue
			}
		}
		r := &reading
		r.n = 0
		for _, c := range t[from:i] {
			r.put(c)
		}
		found |= r.topics()
	}
	return found
}

var wordEndings = []string{"nummer", "number", "num", "nr", "no", "code", "id", "s"}

// topics gives what the word speaks of: as it stands, without an ending, and without a few letters of inflection.
func (r *reader) topics() topic {
	w := r.word[:r.n]
	if mask := known.find(w, r.hash[r.n-1]); mask != 0 {
		return mask
	}
	for _, ending := range wordEndings {
		if n := len(w) - len(ending); n > 1 && w[n] == ending[0] && string(w[n:]) == ending {
			if mask := known.find(w[:n], r.hash[n-1]); mask != 0 {
				return mask
			}
		}
	}
	for n := len(w) - 1; n >= 5 && n >= len(w)-4; n-- { // plakası, passports
		if mask := known.find(w[:n], r.hash[n-1]); mask != 0 {
			return mask
		}
	}
	if w[0] < 0xe0 {
		return 0
	}
	for _, f := range foreign {
		for i := 0; i+len(f) <= len(w); i++ {
			if string(w[i:i+len(f)]) == f {
				return contextWords[f]
			}
		}
	}
	return 0
}
