package testkit

import (
	"reflect"
	"slices"
	"testing"
)

// HooksThat returns hooks that call do, each or only one, and that return the context that they are given.
func HooksThat[H any](do func(), only string) (h H) {
	for i, of := 0, reflect.ValueOf(&h).Elem(); i < of.NumField(); i++ {
		if hook := of.Field(i); only == "" || only == of.Type().Field(i).Name {
			hook.Set(reflect.MakeFunc(hook.Type(), func(args []reflect.Value) []reflect.Value {
				do()
				return args[:hook.Type().NumOut()]
			}))
		}
	}
	return h
}

// AddsHooks wants each field of hooks that were added up to call both hooks in their order, or in the reverse order if it
// is in backwards, and to be nil if neither is set.
func AddsHooks[H any](t *testing.T, add func(...H) H, backwards ...string) {
	t.Helper()
	var order []string
	var none H
	says := func(s string) H { return HooksThat[H](func() { order = append(order, s) }, "") }
	nothing, all := reflect.ValueOf(add(none, none)), reflect.ValueOf(add(says("a"), none, says("b")))
	for i := range all.NumField() {
		name, hook := all.Type().Field(i).Name, all.Field(i)
		if !nothing.Field(i).IsNil() {
			t.Errorf("%s: no hooks added up are a hook, which costs something", name)
		}
		args := make([]reflect.Value, hook.Type().NumIn())
		for j := range args {
			args[j] = reflect.Zero(hook.Type().In(j))
		}
		order = nil
		if !hook.IsNil() {
			hook.Call(args)
		}
		want := []string{"a", "b"}
		if slices.Contains(backwards, name) {
			slices.Reverse(want)
		}
		if !slices.Equal(order, want) {
			t.Errorf("%s: called %v, not %v", name, order, want)
		}
	}
}
