package formats

import (
	"maps"
	"slices"
)

var (
	CSVCell   = csvCell
	CEFPair   = cefPair
	CEFHeader = cefHeader
)

// Types are the types of records that have a row in kinds.
func Types() []string { return slices.Sorted(maps.Keys(kinds)) }
