package sockd

import (
	"fmt"
	"io"
)

// Short names for what the tests say often.
var (
	errEnd  = io.EOF
	sprintf = fmt.Sprintf
)
