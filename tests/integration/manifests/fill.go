// Fill templates as Helm does, with the library that Helm uses: a JSON object with the templates by
// name and the data on stdin, the text of all of them on stdout. Of Helm's own functions there are `fail` and `toJson`.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"text/template"
)

type request struct {
	Templates map[string]string
	Data      map[string]any
}

func main() {
	if err := fill(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fill() error {
	var asked []request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	functions := template.FuncMap{
		"fail": func(why string) (string, error) { return "", errors.New(why) },
		"toJson": func(value any) (string, error) {
			written, err := json.Marshal(value)
			return string(written), err
		},
	}
	answers := make([]string, 0, len(asked))
	for _, each := range asked {
		names := make([]string, 0, len(each.Templates))
		for name := range each.Templates {
			names = append(names, name)
		}
		sort.Strings(names)
		text := ""
		for _, name := range names {
			read, err := template.New(name).Option("missingkey=error").Funcs(functions).Parse(each.Templates[name])
			if err != nil {
				return err
			}
			var written writer
			if err := read.Execute(&written, each.Data); err != nil {
				return err
			}
			text += "---\n" + string(written)
		}
		answers = append(answers, text)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

type writer []byte

func (to *writer) Write(some []byte) (int, error) {
	*to = append(*to, some...)
	return len(some), nil
}
