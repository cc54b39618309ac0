package main

import "github.com/yett-dev/yett/sdk/scanner"

const (
	info     = scanner.Info
	low      = scanner.Low
	medium   = scanner.Medium
	high     = scanner.High
	critical = scanner.Critical
)

// proof says how much a number's own form and checksum count for.
type proof uint8

const (
	named  proof = iota // no check of its own: only with a word for it nearby
	weak                // chance gives one in ten numbers such a form: only with a word for it nearby, or alone
	medial              // chance gives one in fifty: likewise, with more confidence
	strong              // reported wherever it stands
)

// rule is one kind of number. Its shapes are written with d for a digit, a for a letter and x for either, each with a
// count; ~ stands for nothing, a space or a hyphen, the same one throughout; other characters stand for themselves.
type rule struct {
	kind   string
	shapes string
	proof  proof
	need   topic // any of these words supports it
	check  func([]byte) bool
}

// germanVAT are the ways in which invoices and imprints group a German VAT number.
const germanVAT = "a2~d9|a2.d9|a2~d3~d3~d3|a2.d3.d3.d3|a2d3 d3 d3|a2d3-d3-d3|a2d3.d3.d3|a2 d3.d3.d3|a2 d3-d3-d3|" +
	"a2 d3 d6"

// numberRules, the better kinds first where several fit equally well.
var numberRules = []rule{
	{kind: "US_SSN", shapes: "d3-d2-d4", proof: strong, need: ctxSSN | inUS, check: usSSN},
	{kind: "US_SSN", shapes: "d3 d2 d4|d3.d2.d4", proof: medial, need: ctxSSN | inUS, check: usSSN},
	{kind: "US_SSN", shapes: "d9|d3-d6|d5-d4", proof: weak, need: ctxSSN | inUS, check: usSSN},
	{kind: "US_ITIN", shapes: "d3-d2-d4", proof: strong, need: ctxTax | ctxSSN, check: usITIN},
	{kind: "US_ITIN", shapes: "d3 d2 d4|d9|d3-d6|d5-d4", proof: weak, need: ctxTax | ctxSSN, check: usITIN},
	{kind: "US_EIN", shapes: "d2-d7", proof: weak, need: ctxTax | ctxCompany, check: usEIN},
	{kind: "US_EIN", shapes: "d9", proof: named, need: ctxTax, check: usEIN},
	{kind: "ABA_ROUTING_NUMBER", shapes: "d9|d4-d4-d1", proof: weak, need: ctxRouting, check: usRouting},
	{kind: "US_NPI", shapes: "d10|d4~d3~d3", proof: weak, need: ctxDoctor, check: usNPI},
	{kind: "US_MBI", shapes: "x11|x4-x3-x4", proof: strong, need: ctxHealth, check: usMBI},
	{kind: "MEDICAL_LICENSE", shapes: "a2d7|a1d8|a2-d7|a2 d7", proof: medial, need: ctxDoctor, check: usDEA},

	{kind: "UK_NHS", shapes: "d3-d3-d4|d3 d3 d4", proof: medial, need: ctxHealth | inUK,
		check: complement11(11, 10, 9, 8, 7, 6, 5, 4, 3, 2)},
	{kind: "UK_NHS", shapes: "d10", proof: weak, need: ctxHealth | inUK, check: complement11(11, 10, 9, 8, 7, 6, 5, 4,
		3, 2)},
	{kind: "UK_NINO", shapes: "a2~d2~d2~d2~a1|a2 d6 a1|a2~d6~a1", proof: strong, need: ctxTax | ctxSSN | inUK,
		check: ukNINO},
	{kind: "UK_DRIVING_LICENCE", shapes: "x16", proof: strong, need: ctxLicence, check: ukLicence},

	{kind: "DE_TAX_ID", shapes: "d11|d2~d3~d3~d3|d3 d3 d3 d2|d2.d3.d3.d3",
		proof: medial, need: ctxTax | inDE, check: deTaxID},
	{kind: "DE_VAT_ID", shapes: germanVAT, proof: strong, need: ctxTax | ctxCompany, check: deVAT},
	{kind: "DE_VAT_ID", shapes: germanVAT, proof: weak, need: ctxTax | ctxCompany, check: deVATForm},
	{kind: "DE_SOCIAL_SECURITY", shapes: "d8a1d3|d2 d6 a1 d3|d2 d6 a1 d2 d1|d2-d6-a1-d3|d2 d2 d2 d2 a1 d3|d2 d6a1d3",
		proof: strong, need: ctxID | ctxSSN,
		check: dePension},
	{kind: "DE_HEALTH_INSURANCE", shapes: "a1d9|a1 d9|a1 d3 d3 d3|a1d3 d3 d3",
		proof: medial, need: ctxHealth, check: deHealth},
	{kind: "DE_ID_CARD", shapes: "x9", proof: medial, need: ctxID | ctxPassport, check: deDocument},
	{kind: "DE_ID_CARD", shapes: "x10", proof: medial, need: ctxID | ctxPassport, check: deDocument},
	{kind: "DE_LANR", shapes: "d9", proof: weak, need: ctxDoctor, check: deDoctor},
	{kind: "DE_BSNR", shapes: "d9", proof: weak, need: ctxDoctor, check: deClinic},
	{kind: "DE_TAX_NUMBER", shapes: "d3/d3/d5|d2/d3/d5|d3/d4/d4|d3 d3 d5|d2 d3 d5|d5/d5|d3/d4/d4|d4/d3/d5",
		proof: medial, need: ctxTax | inDE,
		check: always},
	{kind: "DE_TAX_NUMBER", shapes: "d13", proof: weak, need: inDE, check: deElster},
	{kind: "DE_HANDELSREGISTER", shapes: "a3~d2|a3~d3|a3~d4|a3~d5|a3~d6", proof: strong, need: ctxCompany,
		check: func(v []byte) bool { return string(v[:3]) == "HRB" || string(v[:3]) == "HRA" }},

	{kind: "FR_NIR", shapes: "d15|d13 d2|d1.d2.d2.d2.d3.d3.d2|d1-d2-d2-d2-d3-d3-d2|d1 d2 d2 d2 d3 d3 d2|d6a1d8|" +
		"d1 d2 d2 d1a1 d3 d3 d2",
		proof: strong,
		need:  ctxSSN | ctxID | inFR, check: frNIR},
	{kind: "ES_NIF", shapes: "d8a1|d8-a1|d8 a1|d2.d3.d3-a1|d2.d3.d3 a1|d2.d3.d3a1|d2 d3 d3 a1",
		proof: strong, need: ctxID | ctxTax | inES, check: esNIF},
	{kind: "ES_NIF", shapes: "d7a1|d7-a1", proof: medial, need: ctxID | ctxTax | inES, check: esShortNIF},
	{kind: "ES_NIE", shapes: "a1d7a1|a1-d7-a1|a1 d7 a1|a1-d7a1|a1d7-a1|a1d7 a1|a1 d7a1", proof: strong,
		need: ctxID | ctxTax | inES, check: esNIE},
	{kind: "ES_CIF", shapes: "a1d8|a1d7a1|a1-d8|a1 d8|a1 d7a1|a1-d7-a1|a1-d7-d1",
		proof: medial, need: ctxTax | inES, check: esCIF},
	{kind: "IT_FISCAL_CODE", shapes: "a6d2a1d2a1d3a1", proof: strong, need: ctxTax | ctxID | inIT,
		check: both(itFiscalForm, itFiscal)},
	{kind: "IT_FISCAL_CODE", shapes: "a6d2a1d2a1d3a1", proof: weak, need: ctxTax | ctxID | inIT, check: itFiscalForm},
	{kind: "IT_FISCAL_CODE", shapes: "a6x2a1x2a1x3a1|a3 a3 d2a1d2 a1d3a1",
		proof: strong, need: ctxTax | ctxID | inIT, check: itFiscal},
	{kind: "IT_VAT_CODE", shapes: "d11|a2d11|a2 d11", proof: medial, need: inIT, check: itVAT},
	{kind: "PT_NIF", shapes: "d9|d3 d3 d3", proof: weak, need: inPT, check: ptNIF},
	{kind: "PT_NIF", shapes: "a2d9|a2 d9", proof: strong, need: ctxTax | inPT, check: ptVAT},
	{kind: "NL_BSN", shapes: "d9|d4.d2.d3|d4 d2 d3|d3~d3~d3|d3.d3.d3", proof: weak, need: inNL, check: nlBSN},
	{kind: "BE_NATIONAL_NUMBER", shapes: "d2.d2.d2-d3.d2|d2.d2.d2 d3.d2|d2.d2.d2-d3-d2|d6-d3.d2", proof: strong,
		need: ctxID | inBE, check: beNational},
	{kind: "BE_NATIONAL_NUMBER", shapes: "d11|d6-d3-d2|d6 d3 d2|d2 d2 d2 d3 d2", proof: medial, need: ctxID | inBE,
		check: beNational},
	{kind: "SE_PERSONNUMMER", shapes: "d6-d4|d8-d4|d6+d4|d8+d4", proof: strong,
		need: ctxID | inSE, check: sePerson},
	{kind: "SE_PERSONNUMMER", shapes: "d10|d12|d6 d4|d8 d4", proof: medial, need: ctxID | inSE, check: sePerson},
	{kind: "SE_ORGANISATIONSNUMMER", shapes: "d6-d4", proof: strong, need: ctxCompany | inSE, check: seOrganisation},
	{kind: "SE_ORGANISATIONSNUMMER", shapes: "a2d12", proof: strong, need: ctxCompany | ctxTax | inSE, check: seVAT},
	{kind: "SE_ORGANISATIONSNUMMER", shapes: "d10|d6 d4", proof: weak, need: inSE, check: seOrganisation},
	{kind: "FI_PERSONAL_IDENTITY_CODE", shapes: "d6-d3a1|d6-d4|d6+d3a1|d6+d4|d6a1d3a1|d6a1d4", proof: strong,
		need:  ctxID | inFI,
		check: fiHETU},
	{kind: "NO_FODSELSNUMMER", shapes: "d11|d6 d5", proof: strong, need: inNO, check: noPerson},
	{kind: "NO_FODSELSNUMMER", shapes: "d6-d5", proof: medial, need: inNO, check: noPerson},
	{kind: "DK_CPR", shapes: "d6-d4", proof: medial, need: inDK, check: dateDMY(0)},
	{kind: "DK_CPR", shapes: "d10", proof: weak, need: inDK, check: dateDMY(0)},
	{kind: "CH_AHV", shapes: "d3.d4.d4.d2|d13|d3 d4 d4 d2|d3-d4-d4-d2",
		proof: strong, need: ctxSSN | ctxID | inCH, check: chAHV},
	{kind: "AT_SVNR", shapes: "d4 d6|d4-d6|d4 d2 d2 d2|d10", proof: medial, need: inAT | ctxSSN, check: atSVNR},
	{kind: "IE_PPS", shapes: "d7a1|d7a2|d7 a1|d7 a2", proof: medial, need: ctxID | ctxTax, check: ieTax},
	{kind: "PL_PESEL", shapes: "d11", proof: medial, need: inPL, check: pesel},
	{kind: "PL_NIP", shapes: "d3-d3-d2-d2|d3-d2-d2-d3", proof: strong, need: inPL,
		check: remainder11(10, 6, 5, 7, 2, 3, 4, 5, 6, 7)},
	{kind: "PL_NIP", shapes: "a2d10|a2 d10|a2-d10", proof: strong, need: ctxTax | inPL, check: plVAT},
	{kind: "PL_NIP", shapes: "d10|d3 d3 d2 d2",
		proof: weak, need: inPL, check: remainder11(10, 6, 5, 7, 2, 3, 4, 5, 6, 7)},
	{kind: "PL_REGON", shapes: "d9|d3 d3 d3", proof: weak, need: inPL, check: remainder11(0, 8, 9, 2, 3, 4, 5, 6, 7)},
	{kind: "PL_REGON", shapes: "d14", proof: weak, need: inPL,
		check: remainder11(0, 2, 4, 8, 5, 0, 9, 7, 3, 6, 1, 2, 4, 8)},
	{kind: "PL_IDENTITY_CARD", shapes: "a3d6", proof: weak, need: inPL, check: plCard},
	{kind: "CZ_RODNE_CISLO", shapes: "d6/d4", proof: strong, need: ctxID | inOther, check: czPerson},
	{kind: "CZ_RODNE_CISLO", shapes: "d10|d6 d4", proof: weak, need: inOther, check: czPerson},
	{kind: "RO_CNP", shapes: "d13", proof: medial, need: ctxID, check: roPerson},
	{kind: "BG_EGN", shapes: "d10", proof: weak, need: inOther, check: remainder11(0, 2, 4, 8, 5, 10, 9, 7, 3, 6)},
	{kind: "BALTIC_PERSONAL_CODE", shapes: "d11", proof: medial, need: inOther, check: baltic},
	{kind: "HR_OIB", shapes: "d11", proof: weak, need: inOther, check: mod1110},
	{kind: "YU_JMBG", shapes: "d13", proof: medial, need: inOther,
		check: both(dateDMY(0), complement11(0, 7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))},
	{kind: "GR_AMKA", shapes: "d11", proof: medial, need: inOther, check: both(dateDMY(0), luhn)},
	{kind: "RU_SNILS", shapes: "d3-d3-d3 d2|d3-d3-d3-d2", proof: strong, need: inOther, check: ruSNILS},
	{kind: "RU_SNILS", shapes: "d3 d3 d3 d2", proof: medial, need: inOther, check: ruSNILS},
	{kind: "RU_SNILS", shapes: "d11", proof: weak, need: inOther, check: ruSNILS},
	{kind: "RU_INN", shapes: "d12", proof: medial, need: inOther, check: ruINN},
	{kind: "TR_NATIONAL_ID", shapes: "d11|d3 d3 d3 d2", proof: medial, need: inTR | ctxID, check: trPerson},

	{kind: "IN_AADHAAR", shapes: "d4~d4~d4|d4:d4:d4", proof: medial, need: inIN, check: inAadhaar},
	{kind: "IN_AADHAAR", shapes: "d4 d4 d4|d4-d4-d4", proof: strong, need: inIN, check: inAadhaar},
	{kind: "IN_PAN", shapes: "a5d4a1", proof: strong, need: inIN | ctxTax, check: inPAN},
	{kind: "IN_PAN", shapes: "a5d4a1", proof: weak, need: inIN | ctxTax, check: always},
	{kind: "IN_GSTIN", shapes: "d2a5d4a1x1a1x1", proof: strong, need: inIN | ctxTax, check: inGSTIN},
	{kind: "IN_VOTER", shapes: "a3d7", proof: weak, need: ctxVoter, check: always},
	{kind: "IN_PASSPORT", shapes: "a1d7|a1 d7|a1d2 d5", proof: weak, need: inIN, check: inPassport},
	{kind: "IN_VEHICLE_REGISTRATION",
		shapes: "a2~d2~a2~d4|a2~d2~a1~d4|a2~d2~a3~d4|a2~d1~a2~d4|a2~d1~a1~d4|a2~d1~a3~d4|a2 d1a1 a2 d4|" +
			"a2-d1a1-a2-d4|a2d2d4", proof: medial, need: ctxPlate, check: inPlate},
	{kind: "IN_VEHICLE_REGISTRATION", shapes: "d2a2d4a2|d2a2d4a1|d2 a2 d4 a2|d2 a2 d4 a1",
		proof: weak, need: ctxPlate,
		check: func(v []byte) bool { return string(v[2:4]) == "BH" }},
	{kind: "CN_RESIDENT_ID", shapes: "d18|d17a1|d6 d8 d4|d6 d8 d3a1", proof: strong, need: ctxID, check: cnResident},
	{kind: "HK_ID", shapes: "a1d6(d1)|a1d6(a1)|a2d6(d1)|a2d6(a1)|a1d6 (d1)|a1d6 (a1)", proof: strong,
		need: ctxID, check: hkPerson},
	{kind: "HK_ID", shapes: "a1d7|a1d6a1|a2d7|a2d6a1", proof: weak, need: inOther, check: hkPerson},
	{kind: "TW_ID", shapes: "a1d9", proof: medial, need: ctxID, check: twPerson},
	{kind: "JP_MY_NUMBER", shapes: "d4 d4 d4|d4-d4-d4|d12", proof: medial, need: inJP, check: jpNumber},
	{kind: "KR_RRN", shapes: "d6-d7", proof: strong, need: inKR, check: krPerson("1234")},
	{kind: "KR_FRN", shapes: "d6-d7", proof: strong, need: inKR, check: krPerson("5678")},
	{kind: "KR_RRN", shapes: "d13", proof: weak, need: inKR,
		check: krPerson("1234")},
	{kind: "KR_FRN", shapes: "d13", proof: weak, need: inKR, check: krPerson("5678")},
	{kind: "KR_BRN", shapes: "d3-d2-d5", proof: strong, need: inKR, check: krBusiness},
	{kind: "KR_BRN", shapes: "d10|d3 d2 d5", proof: weak, need: inKR, check: krBusiness},
	{kind: "KR_DRIVER_LICENSE", shapes: "d2-d2-d6-d2", proof: strong, need: ctxLicence, check: krLicence},
	{kind: "KR_DRIVER_LICENSE", shapes: "d12|d2 d2 d6 d2", proof: weak, need: ctxLicence, check: krLicence},
	{kind: "KR_PASSPORT", shapes: "a1d3a1d4", proof: medial, need: ctxPassport | inKR, check: firstOf("MSRODG")},
	{kind: "KR_PASSPORT", shapes: "a1d8", proof: weak, need: inKR, check: firstOf("MSRODG")},
	{kind: "SG_NRIC_FIN", shapes: "a1d7a1", proof: strong, need: inSG, check: sgPerson},
	{kind: "SG_UEN", shapes: "d8a1|d9a1|a1d2a2d4a1", proof: medial, need: ctxCompany | inSG, check: sgUEN},
	{kind: "TH_TNIN", shapes: "d1-d4-d5-d2-d1", proof: strong, need: inTH, check: thPerson},
	{kind: "TH_TNIN", shapes: "d13|d1 d4 d5 d2 d1", proof: medial, need: ctxID | inTH, check: thPerson},
	{kind: "MY_NRIC", shapes: "d6-d2-d4", proof: strong, need: ctxID, check: both(dateYMD(0), myPlace)},
	{kind: "PK_CNIC", shapes: "d5-d7-d1", proof: strong, need: ctxID, check: firstOf("1234567")},
	{kind: "ID_NIK", shapes: "d16", proof: named, need: inOther, check: plausibleNIK},
	{kind: "PH_TIN", shapes: "d3-d3-d3-d3|d3-d3-d3-d5|d3-d3-d3-d4", proof: medial, need: ctxTax | inPH, check: phTIN},
	{kind: "PH_TIN", shapes: "d3-d3-d3|d3 d3 d3|d3 d3 d3 d3|d3 d3 d3 d5|d9|d12",
		proof: weak, need: inPH, check: phTIN},

	{kind: "AU_TFN", shapes: "d9|d3~d3~d3|d8|d2 d3 d3", proof: weak, need: inAU, check: auTFN},
	{kind: "AU_ABN", shapes: "d11|d2~d3~d3~d3", proof: medial, need: inAU | ctxCompany, check: auABN},
	{kind: "AU_ACN", shapes: "d9|d3~d3~d3", proof: weak, need: inAU, check: complement10(8, 7, 6, 5, 4, 3, 2, 1)},
	{kind: "AU_MEDICARE", shapes: "d10|d11|d4~d5~d1|d4~d5~d1~d1|d4 d5 d1/d1|d4 d5 d1-d1",
		proof: weak, need: ctxHealth | inAU,
		check: auMedicare},
	{kind: "NZ_IRD", shapes: "d8|d2~d3~d3|d3~d3~d3", proof: weak, need: inNZ, check: nzIRD},
	{kind: "CA_SIN", shapes: "d3-d3-d3|d3 d3 d3", proof: medial, need: inCA | ctxSSN, check: caSIN},
	{kind: "CA_SIN", shapes: "d9", proof: weak, need: inCA | ctxSSN, check: caSIN},
	{kind: "ZA_ID_NUMBER", shapes: "d13", proof: medial, need: inZA | ctxID, check: zaPerson},
	{kind: "ZA_ID_NUMBER", shapes: "d6 d4 d3|d6-d4-d3|d6 d4 d2 d1|d6 d4 d1 d1 d1", proof: strong, need: inZA | ctxID,
		check: zaPerson},
	{kind: "NG_NIN", shapes: "d11|d4 d3 d4|d4-d3-d4|d4 d4 d3|d4-d4-d3", proof: weak, need: inNG, check: both(verhoeff,
		func(v []byte) bool { return !same(v) })},
	{kind: "NG_VEHICLE_REGISTRATION", shapes: "a3~d3~a2|a3-d3a2|a3 d3a2", proof: weak, need: ctxPlate | inNG,
		check: always},
	{kind: "IL_ID", shapes: "d9|d8-d1", proof: weak, need: inOther, check: luhn},
	{kind: "AE_EMIRATES_ID", shapes: "d3-d4-d7-d1|d3 d4 d7 d1|d15", proof: strong, need: ctxID,
		check: both(luhn, func(v []byte) bool { return string(v[:3]) == "784" })},
	{kind: "SA_NATIONAL_ID", shapes: "d10", proof: weak, need: inOther, check: both(firstOf("12"), luhn)},

	{kind: "BR_CPF", shapes: "d3.d3.d3-d2", proof: strong, need: inBR | ctxID, check: brCPF},
	{kind: "BR_CPF", shapes: "d11|d9-d2|d3 d3 d3 d2|d3-d3-d3-d2|d3.d3.d3.d2",
		proof: medial, need: inBR, check: brCPF},
	{kind: "BR_CNPJ", shapes: "d2.d3.d3/d4-d2|d8/d4-d2|x2.x3.x3/x4-x2|x8/x4-x2",
		proof: strong, need: inBR, check: brCNPJ},
	{kind: "BR_CNPJ", shapes: "d14|x14|d2 d3 d3 d4 d2", proof: medial, need: inBR | ctxCompany, check: brCNPJ},
	{kind: "MX_CURP", shapes: "a4d6a6x1d1", proof: strong, need: inMX | ctxID, check: mxCURP},
	{kind: "MX_RFC", shapes: "a4d6x3|a3d6x3", proof: medial, need: inMX | ctxTax, check: mxRFC},
	{kind: "AR_CUIT", shapes: "d2-d8-d1", proof: strong, need: inOther | ctxTax, check: arCUIT},
	{kind: "AR_CUIT", shapes: "d11|d2 d8 d1", proof: medial, need: inOther | ctxTax, check: arCUIT},
	{kind: "AR_DNI", shapes: "d2.d3.d3", proof: named, need: inOther | ctxID, check: always},
	{kind: "CL_RUT", shapes: "d2.d3.d3-d1|d2.d3.d3-a1|d1.d3.d3-d1|d1.d3.d3-a1", proof: strong, need: inOther,
		check: clRUT},
	{kind: "CL_RUT", shapes: "d8-d1|d8-a1|d7-d1|d7-a1", proof: medial, need: inOther, check: clRUT},
	{kind: "EC_CEDULA", shapes: "d10|d9-d1", proof: weak, need: inOther, check: ecPerson},
	{kind: "DO_CEDULA", shapes: "d3-d7-d1", proof: strong, need: ctxID, check: luhn},
	{kind: "DO_CEDULA", shapes: "d11", proof: weak, need: inOther, check: both(luhn, onlyNamed)},

	{kind: "IT_DRIVER_LICENSE", shapes: "a2d7a1|a1d1x7a1", proof: weak, need: ctxLicence, check: always},
	{kind: "IT_IDENTITY_CARD", shapes: "a2d5a2|a2d7|d7a2", proof: weak, need: inIT, check: always},
	{kind: "IT_PASSPORT", shapes: "a2d7", proof: weak, need: inIT, check: always},
	{kind: "ES_PASSPORT", shapes: "a3d6|a2d6|a3d6a1", proof: weak, need: ctxPassport | inES, check: always},
	{kind: "DE_FUEHRERSCHEIN", shapes: "x11", proof: weak, need: ctxLicence, check: deLicence},
	{kind: "US_PASSPORT", shapes: "a1d8|d9", proof: weak, need: ctxPassport, check: always},
	{kind: "UK_PASSPORT", shapes: "a2d7", proof: weak, need: ctxPassport, check: always},
	{kind: "PASSPORT", shapes: "d2a2d5|a1d6|a2d6|a2d8|d7|d8", proof: named, need: ctxPassport, check: onlyNamed},
	{kind: "US_DRIVER_LICENSE", proof: named, need: ctxLicence, check: usLicence,
		shapes: "a1d8|a1d7|a1d12|a1d13|a1d14|a1d9|a1d6|a1d5|a1d4|a2d6|a3d6|d7|d8|d9|d10|d11|d12|d13|d7a1|d9a1|" +
			"d8a2|d3a2d4|" +
			"d2a3d5|a1d3-d4-d4|a1d3-d3-d2-d3-d1|a1-d3-d3-d3-d3|d2-d3-d3|d3-d3-d3"},
	{kind: "UK_VEHICLE_REGISTRATION", shapes: "a2d2 a3|a2d2a3|a1d3 a3|a1d3a3|a1d2 a3|a3 d3a1|a3d3a1|a3 d2a1",
		proof: weak,
		need:  ctxPlate, check: ukPlate},
	{kind: "UK_VEHICLE_REGISTRATION", shapes: "a3 d4|a3d4|a3 d3", proof: weak, need: ctxPlate | inUK,
		check: func(v []byte) bool { return charAt(1, "IZ")(v) || charAt(2, "IZ")(v) }},
	{kind: "UK_POSTCODE", shapes: "a1d2a2|a2d2a2|a1d3a2|a2d3a2", proof: weak, need: ctxZip | ctxAddress,
		check: postcode},
	{kind: "TR_LICENSE_PLATE",
		shapes: "d2~a1~d2|d2~a1~d3|d2~a1~d4|d2~a1~d5|d2~a2~d2|d2~a2~d3|d2~a2~d4|d2~a3~d2|d2~a3~d3|d2~a3~d4|d2 " +
			"a1d4|d2 a2d3|d2 a2d4|d2 a3d2|d2 a3d3", proof: weak, need: ctxPlate | inTR,
		check: trPlate},
	{kind: "DE_KFZ", proof: weak, need: ctxPlate, check: always, shapes: germanPlates()},
	{kind: "IMEI", shapes: "d15|d2-d6-d6-d1", proof: named, need: ctxDevice, check: luhn},
	{kind: "BANK_NUMBER", shapes: "d8|d9|d10|d11|d12|d13|d14|d15|d16|d17|d2-d2-d2 d8|d3-d3-d4|d4-d4-d4|d4 d4 d4",
		proof: named,
		need:  ctxBank, check: onlyNamed},
	{kind: "MEDICAL_RECORD",
		shapes: "d6|d7|d8|d9|d10|a1d6|a1d7|a1d8|a2d6|a2d8|a3d6|a3d7|a3d9|d3-d3-d3|a3-d6|a3-d5|a3-d7|a2-d6",
		proof:  named, need: ctxHealth, check: onlyNamed},
}
