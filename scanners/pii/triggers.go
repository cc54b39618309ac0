package main

import "github.com/yett-dev/yett/sdk/scanner"

// trigger is what the host looks for, and what to do where it is.
type trigger struct {
	scanner.Trigger
	find func(*scan, scanner.Hit)
}

var triggers = makeTriggers()

func makeTriggers() []trigger {
	list := []trigger{
		{scanner.Trigger{Class: "digits", Min: 2}, (*scan).digits},
		{scanner.Trigger{Class: "at", Min: 1}, (*scan).email},
		{scanner.Trigger{Class: "base64", Min: 26}, (*scan).crypto},
		{scanner.Trigger{Literal: "http://"}, (*scan).url},
		{scanner.Trigger{Literal: "https://"}, (*scan).url},
		{scanner.Trigger{Literal: "MAC"}, (*scan).macWord},
		{scanner.Trigger{Literal: "mac address", Fold: true}, (*scan).macWord},
		{scanner.Trigger{Literal: "physical address", Fold: true}, (*scan).macWord},
		{scanner.Trigger{Literal: "hwaddr", Fold: true}, (*scan).macWord},
		{scanner.Trigger{Literal: "swift", Fold: true}, (*scan).swift},
		{scanner.Trigger{Literal: "BIC"}, (*scan).swift},
	}
	for _, title := range titles {
		list = append(list, trigger{scanner.Trigger{Literal: title}, (*scan).person})
	}
	for d := byte('0'); d <= '9'; d++ {
		list = append(list,
			trigger{scanner.Trigger{Literal: "." + string(d) + "."}, (*scan).dotted},
			trigger{scanner.Trigger{Literal: ":" + string(d) + ":"}, (*scan).colons},
			trigger{scanner.Trigger{Literal: "::" + string(d)}, (*scan).colons})
		for _, letter := range "ABDEFGHJLNPQRSTUWXYZ" { // the inward half of a British postcode
			list = append(list, trigger{scanner.Trigger{Literal: " " + string(d) + string(letter), Fold: true},
				(*scan).postcodeUK})
		}
	}
	return list
}

func triggerList() []scanner.Trigger {
	list := make([]scanner.Trigger, len(triggers))
	for i := range triggers {
		list[i] = triggers[i].Trigger
	}
	return list
}
