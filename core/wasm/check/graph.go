package check

import "slices"

// maxChain is what the frames of functions that cannot recur may take together along the longest chain of calls, in
// estimated bytes. Functions that can recur are bounded by StackBudget when they run.
const maxChain = 8 << 20

// graph is who calls whom. Its nodes are the module's own functions and, behind them, one for each type that is called
// indirectly, which calls every function of that type that a table or a reference may hold.
type graph struct {
	from  []uint32 // where each node's edges begin
	edges []uint32
	frame []uint32 // estimated bytes of each function
}

// checkFlow reads every function body, finds those that can recur, and holds the whole against the bounds.
func (m *Module) checkFlow() error {
	s := m.shape
	f := &flow{s: s}
	g := &graph{frame: make([]uint32, len(s.bodies))}
	kinds := s.callTypes()
	refs := slices.Clone(s.declared)
	mutable := s.mutable()
	kept, total := int64(0), timeTypeFunc*int64(len(s.types))*int64(len(s.bodies))
	for i := range s.bodies {
		if err := f.read(&s.bodies[i], s.types[s.funcs[i]]); err != nil {
			return err
		}
		cost, time := f.cost(mutable)
		if cost > maxFuncMemory {
			return refusef("function %d would cost the compiler %d bytes: at most %d are allowed", i+len(s.importFuncs), cost,
				maxFuncMemory)
		}
		m.dearest = max(m.dearest, cost)
		kept += costKeptFunction + costKeptLocal*int64(f.d.locals)
		total += time
		g.frame[i] = f.frame()
		g.from = append(g.from, uint32(len(g.edges)))
		for _, c := range f.calls {
			if int(c) >= len(s.importFuncs) {
				g.edges = append(g.edges, c-uint32(len(s.importFuncs)))
			}
		}
		for _, t := range f.indirect {
			g.edges = append(g.edges, uint32(len(s.bodies))+kinds[t])
		}
		mine := g.edges[g.from[i]:]
		slices.Sort(mine)
		g.edges = g.edges[:int(g.from[i])+len(slices.Compact(mine))]
		refs = append(refs, f.refs...)
	}
	if total > maxModuleTime {
		return refusef("it would cost the compiler %d ms: at most %d are allowed", total/1_000_000, maxModuleTime/1_000_000)
	}
	if kept > maxModuleMemory {
		return refusef("its functions and their locals would cost the compiler %d bytes: at most %d are allowed", kept,
			maxModuleMemory)
	}
	m.Cost, m.Keeps = total, f.keeps
	g.references(s, kinds, refs)
	recurs, chain := g.walk()
	if chain > maxChain {
		return refusef("calls that cannot recur take up to %d bytes of stack: at most %d are allowed", chain, maxChain)
	}
	m.recurs, m.Chain = recurs, chain
	return nil
}

// callTypes numbers the different signatures: one type may be declared several times.
func (s *shape) callTypes() []uint32 {
	kinds := make([]uint32, len(s.types))
	seen := map[signature]uint32{}
	for i, t := range s.types {
		k, ok := seen[t]
		if !ok {
			k = uint32(len(seen))
			seen[t] = k
		}
		kinds[i] = k
	}
	return kinds
}

// references adds the edges of the nodes for types.
func (g *graph) references(s *shape, kinds, refs []uint32) {
	slices.Sort(refs)
	byKind := make([][]uint32, len(s.types))
	for _, r := range slices.Compact(refs) {
		if int(r) < len(s.importFuncs) {
			continue
		}
		own := r - uint32(len(s.importFuncs))
		k := kinds[s.funcs[own]]
		byKind[k] = append(byKind[k], own)
	}
	for _, fs := range byKind {
		g.from = append(g.from, uint32(len(g.edges)))
		g.edges = append(g.edges, fs...)
	}
	g.from = append(g.from, uint32(len(g.edges)))
}

// walk finds the strongly connected parts (Tarjan's way, without recursion). recurs tells for each function whether it
// can be on the stack twice; chain is the longest sum of frames over the functions that cannot.
func (g *graph) walk() (recurs []bool, chain uint64) {
	n := len(g.from) - 1
	recurs = make([]bool, len(g.frame))
	var (
		order, low = make([]uint32, n), make([]uint32, n) // order 0: not seen yet
		done       = make([]bool, n)
		sum        = make([]uint64, n) // longest chain from here, for those that are done
		next       = slices.Clone(g.from[:n])
		stack      []uint32 // Tarjan's
		path       []uint32 // the recursion's
		count      uint32
	)
	for root := range n {
		if order[root] != 0 {
			continue
		}
		path = append(path, uint32(root))
		for len(path) > 0 {
			v := path[len(path)-1]
			if order[v] == 0 {
				count++
				order[v], low[v] = count, count
				stack = append(stack, v)
			}
			if next[v] < g.from[v+1] {
				w := g.edges[next[v]]
				next[v]++
				if order[w] == 0 {
					path = append(path, w)
				} else if !done[w] {
					low[v] = min(low[v], order[w])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				low[path[len(path)-1]] = min(low[path[len(path)-1]], low[v])
			}
			if low[v] == order[v] {
				at := len(stack) - 1
				for stack[at] != v {
					at--
				}
				chain = max(chain, g.part(stack[at:], recurs, done, sum))
				stack = stack[:at]
			}
		}
	}
	return recurs, chain
}

// part closes one strongly connected part and gives the longest chain that begins in it.
func (g *graph) part(nodes []uint32, recurs, done []bool, sum []uint64) uint64 {
	var best uint64
	loops := len(nodes) > 1
	for _, v := range nodes {
		for _, w := range g.edges[g.from[v]:g.from[v+1]] {
			loops = loops || w == v
			if done[w] {
				best = max(best, sum[w])
			}
		}
	}
	for _, v := range nodes {
		done[v] = true
		if int(v) < len(recurs) {
			recurs[v] = loops
		}
	}
	if v := nodes[0]; !loops && int(v) < len(g.frame) {
		best += uint64(g.frame[v])
	}
	for _, v := range nodes {
		sum[v] = best
	}
	return best
}
