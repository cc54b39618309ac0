package mcpd

// EndIdle ends the processes of a server that nobody has used for long, as the clock of the gateway says.
func (g *Gateway) EndIdle(server string) { g.servers[server].up.(*local).endIdle() }

// The bounds that tests reach.
const (
	MostPerKey = mostPerKey
	ChildIdle  = childIdle
)
