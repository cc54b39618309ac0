package main

import (
	"slices"
	"strings"
	"text/template/parse"
)

// pipe is a pipeline as a Go expression.
func (w *writer) pipe(p *parse.PipeNode) string {
	if len(p.Cmds) != 1 || len(p.Decl) > 0 {
		w.unknown(p)
		return ""
	}
	return w.command(p.Cmds[0])
}

func (w *writer) command(c *parse.CommandNode) string {
	first, args := c.Args[0], c.Args[1:]
	if p, ok := first.(*parse.PipeNode); ok && len(args) == 0 {
		return w.pipe(p)
	}
	id, ok := first.(*parse.IdentifierNode)
	if !ok {
		return w.chain(first, args)
	}
	var values []string
	for _, a := range args {
		values = append(values, w.value(a))
	}
	switch op := map[string]string{"eq": "==", "ne": "!=", "lt": "<"}[id.Ident]; {
	case op != "" && len(values) == 2:
		return "(" + values[0] + " " + op + " " + values[1] + ")"
	case id.Ident == "and" || id.Ident == "or" || id.Ident == "not":
		return w.logic(id.Ident, args)
	case id.Ident == "len" && len(values) == 1:
		return "len(" + values[0] + ")"
	case id.Ident == "print" && len(values) == 1:
		return "fmt.Sprint(" + values[0] + ")"
	case id.Ident == "printf":
		return "fmt.Sprintf(" + strings.Join(values, ", ") + ")"
	case slices.Contains(funcs, id.Ident) && len(values) == 1:
		return id.Ident + "(" + values[0] + ")"
	}
	w.unknown(c)
	return ""
}

func (w *writer) logic(op string, args []parse.Node) string {
	var parts []string
	for _, a := range args {
		parts = append(parts, w.truth(a))
	}
	switch op {
	case "and":
		return "(" + strings.Join(parts, " && ") + ")"
	case "or":
		return "(" + strings.Join(parts, " || ") + ")"
	}
	return "!" + parts[0]
}

// cond is a pipeline as a condition, truth one value as one.
func (w *writer) cond(p *parse.PipeNode) string {
	if len(p.Cmds) != 1 || len(p.Decl) > 0 {
		w.unknown(p)
		return ""
	}
	if id, ok := p.Cmds[0].Args[0].(*parse.IdentifierNode); ok &&
		slices.Contains([]string{"eq", "ne", "lt", "and", "or", "not"}, id.Ident) {
		return w.command(p.Cmds[0])
	}
	return "is(" + w.command(p.Cmds[0]) + ")"
}

func (w *writer) truth(n parse.Node) string {
	if p, ok := n.(*parse.PipeNode); ok {
		return w.cond(p)
	}
	return "is(" + w.value(n) + ")"
}

func (w *writer) value(n parse.Node) string {
	switch n := n.(type) {
	case *parse.PipeNode:
		return w.pipe(n)
	case *parse.StringNode:
		return n.Quoted
	case *parse.NumberNode:
		return n.Text
	default:
		return w.chain(n, nil)
	}
}

// chain is a variable or the dot, with the fields and methods behind it.
func (w *writer) chain(n parse.Node, args []parse.Node) string {
	var root string
	var fields []string
	switch n := n.(type) {
	case *parse.DotNode:
		root = w.dot
	case *parse.FieldNode:
		root, fields = w.dot, n.Ident
		if w.dot == "v" && fields[0] == "Page" && w.page != "" {
			root, fields = w.page, fields[1:]
		}
	case *parse.VariableNode:
		if !slices.Contains(w.vars, n.Ident[0]) {
			w.unknown(n)
		}
		root, fields = name(n.Ident[0]), n.Ident[1:]
	case *parse.StringNode:
		root = n.Quoted
	default:
		w.unknown(n)
	}
	for i, f := range fields {
		root += "." + f
		switch last := i == len(fields)-1; {
		case w.methods[f] && last && len(args) > 0:
			var values []string
			for _, a := range args {
				values = append(values, w.value(a))
			}
			return root + "(" + strings.Join(values, ", ") + ")"
		case w.methods[f]:
			root += "()"
		}
	}
	if len(args) > 0 {
		w.unknown(n)
	}
	return root
}

// name is a variable's in Go.
func name(v string) string { return "the" + strings.ToUpper(v[1:2]) + v[2:] }
