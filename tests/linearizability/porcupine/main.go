// Reads histories, one JSON object a line, and prints for each whether porcupine finds an order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Called   int64           `json:"called"`
	Returned int64           `json:"returned"`
	Kind     string          `json:"kind"`
	Given    int             `json:"given"`
	Answer   json.RawMessage `json:"answer"`
}

type history struct {
	Model      string      `json:"model"`
	Operations []operation `json:"operations"`
}

func (one operation) isAnswered() bool { return one.Returned != -1 }

func (one operation) is(done bool) bool {
	var said bool
	decode(one.Answer, &said)
	return said == done
}

func decode(text json.RawMessage, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}

func node(state int, one operation) (bool, int) {
	done := one.Given == state
	next := state
	if done {
		next++
	}
	return !one.isAnswered() || one.is(done), next
}

func owned(state int, one operation) (bool, int) {
	switch one.Kind {
	case "own":
		return state == 0, one.Given
	case "end":
		return state == one.Given, 0
	}
	return state == one.Given, state
}

func fenced(state int, one operation) (bool, int) {
	return !one.isAnswered() || one.is(one.Given >= state), max(state, one.Given)
}

func log(state []int, one operation) (bool, []int) {
	if one.Kind == "read" || one.Kind == "all" {
		var found []int
		decode(one.Answer, &found)
		if one.Kind == "all" {
			return slices.Equal(state, found), state
		}
		end := one.Given + len(found)
		// Nothing found says nothing.
		return len(found) == 0 || end <= len(state) && slices.Equal(state[one.Given:end], found), state
	}
	next := append(slices.Clone(state), one.Given)
	if !one.isAnswered() {
		return true, next
	}
	var offset int
	decode(one.Answer, &offset)
	return offset == len(state), next
}

func ofNumber(step func(int, operation) (bool, int)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := step(state.(int), input.(operation))
			return ok, next
		},
	}
}

func modelOf(name string) porcupine.Model {
	switch name {
	case "node":
		return ofNumber(node)
	case "owned":
		return ofNumber(owned)
	case "fenced":
		return ofNumber(fenced)
	case "log":
		return porcupine.Model{
			Init: func() any { return []int{} },
			Step: func(state, input, _ any) (bool, any) {
				ok, next := log(state.([]int), input.(operation))
				return ok, next
			},
			Equal: func(one, other any) bool { return slices.Equal(one.([]int), other.([]int)) },
		}
	}
	panic("no such model: " + name)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var found history
		decode(lines.Bytes(), &found)
		operations := make([]porcupine.Operation, len(found.Operations))
		for number, one := range found.Operations {
			returned := one.Returned
			if !one.isAnswered() {
				returned = math.MaxInt64
			}
			operations[number] = porcupine.Operation{
				ClientId: number, Input: one, Call: one.Called, Output: nil, Return: returned,
			}
		}
		fmt.Println(porcupine.CheckOperations(modelOf(found.Model), operations))
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}
