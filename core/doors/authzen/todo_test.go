package authzen_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/doortest"
)

// The todo application of the interop events: who may do what, for each of its five users. "own" is what one may do to
// a todo of their own, "other" to one of somebody else.
func TestTodo(t *testing.T) {
	b := open(t, doortest.WithRule(t, byRules(t, "todo.yaml")))
	key := b.Key("todo", "agent").Value
	for _, u := range []struct {
		id                 string
		create, own, other bool
	}{
		{"rick@the-citadel.com", true, true, true},
		{"morty@the-citadel.com", true, true, false},
		{"summer@the-smiths.com", true, true, false},
		{"beth@the-smiths.com", false, false, false},
		{"jerry@the-smiths.com", false, false, false},
	} {
		todo := func(owner string) string {
			return `{"type":"todo","id":"7240d0db","properties":{"ownerID":"` + owner + `"}}`
		}
		var entries []string
		var want []bool
		for _, c := range []struct {
			action, resource string
			want             bool
		}{
			{"can_read_user", `{"type":"user","id":"beth@the-smiths.com","userID":"beth@the-smiths.com"}`, true},
			{"can_read_todos", `{"type":"todo","id":"todo-1"}`, true},
			{"can_create_todo", `{"type":"todo","id":"todo-1"}`, u.create},
			{"can_update_todo", todo(u.id), u.own},
			{"can_update_todo", todo("somebody@the-citadel.com"), u.other},
			{"can_delete_todo", todo(u.id), u.own},
			{"can_delete_todo", todo("somebody@the-citadel.com"), u.other},
		} {
			entry := `"action":{"name":"` + c.action + `"},"resource":` + c.resource
			entries, want = append(entries, "{"+entry+"}"), append(want, c.want)
			body := join(`"subject":{"type":"user","id":"`+u.id+`","identity":"CiRmZDA2"}`, entry)
			if got, r := b.decide(key, body); got != c.want {
				t.Errorf("%s: %t, want %t: %s", body, got, c.want, r.text)
			}
		}
		r := b.send(key, "POST", "/access/v1/evaluations", join(`"subject":{"type":"user","id":"`+u.id+`"}`,
			`"evaluations":[`+strings.Join(entries, ",")+`]`))
		for i := range want {
			if r.at("evaluations", i, "decision") != want[i] {
				t.Errorf("%s: %s: want %v", u.id, fmt.Sprint(r.at("evaluations", i)), want[i])
			}
		}
	}
}
