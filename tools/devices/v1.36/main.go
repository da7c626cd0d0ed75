// Answers questions about devices with the code that kube-scheduler of this minor runs.
//
// Each line of stdin is a JSON object, and each line of stdout is its answer, in order. "mode" selects the question.
//
// "cel": does the device match the expression? Fields: expression, driver, device (a resource.k8s.io/v1 Device).
// The answer has "matches" and "cost", or "compileError", or "runtimeError" and "cost". The allocator writes these
// texts after "CEL compile error: " and "CEL runtime error: ".
//
// "allocate": which devices of the node do the claims get? Fields: node, claims, slices, classes, allocated, and
// optionally timeoutMillis and allocator: "stable", "incubating" or "experimental" instead of upstream's choice by
// features. The answer has "channel" (the implementation) and "allocations", one for each claim, or null if the
// claims cannot be allocated. If the allocator fails, the answer has "error", and "node": true if the error concerns
// only this node.
//
// "features" are the fields of structured.Features. If absent, they are kube-scheduler's defaults.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/dynamic-resource-allocation/structured"
)

type question struct {
	Mode     string               `json:"mode"`
	Features *structured.Features `json:"features"`
	selection
	allocation
}

type answer map[string]any

func main() {
	input := bufio.NewReader(os.Stdin)
	output := bufio.NewWriter(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
		text, err := json.Marshal(respond(line))
		if err != nil {
			fail(err)
		}
		if _, err := output.Write(append(text, '\n')); err != nil {
			fail(err)
		}
		if err := output.Flush(); err != nil {
			fail(err)
		}
	}
}

// respond also answers when upstream's code panics, so that the next question can be asked.
func respond(line []byte) (result answer) {
	defer func() {
		if reason := recover(); reason != nil {
			result = answer{"panic": fmt.Sprint(reason)}
		}
	}()
	asked := question{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{"invalid": err.Error()}
	}
	features := schedulerFeatures
	if asked.Features != nil {
		features = *asked.Features
	}
	switch asked.Mode {
	case "cel":
		return asked.selection.evaluate(context.Background(), features)
	case "allocate":
		return asked.allocation.allocate(context.Background(), features)
	}
	return answer{"invalid": fmt.Sprintf("unknown mode %q", asked.Mode)}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "device-witness:", err)
	os.Exit(1)
}
