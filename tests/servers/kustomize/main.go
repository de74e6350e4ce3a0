// Renders kustomizations one after another: a line of JSON in for each, a line of JSON out.
//
// The library is the one of the kustomize program beside it. What the program keeps for its whole process (the schema)
// is reset before and after a case that names a schema of its own, so that every case sees a fresh process.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// request is one case; files are named from the root, which is also where Directory starts.
type request struct {
	Files map[string]string `json:"files"`
	// Binaries are files that are no text, in base64.
	Binaries  map[string][]byte `json:"binaries"`
	Directory string            `json:"directory"`
	// Order is "legacy" or "none".
	Order string `json:"order"`
	// Anywhere lifts the restriction to files below the kustomization.
	Anywhere bool `json:"anywhere"`
}

// response is what the program would print: Output, or Error where it refuses. Internal tells a crash.
type response struct {
	Output   string   `json:"output"`
	Error    *string  `json:"error"`
	Internal bool     `json:"internal"`
	Warnings []string `json:"warnings"`
}

var ownSchema = regexp.MustCompile(`(?i)openapi`)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	warnings, err := os.CreateTemp("", "kustomize-loop")
	if err != nil {
		log.Fatal(err)
	}
	os.Remove(warnings.Name())
	stderr := os.Stderr
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var asked request
		if err == nil {
			err = json.Unmarshal(line, &asked)
		}
		if err != nil {
			fmt.Fprintln(stderr, err)
			os.Exit(1)
		}
		os.Stderr = warnings
		log.SetOutput(warnings)
		answer := render(&asked)
		os.Stderr = stderr
		answer.Warnings = drain(warnings)
		encoded, err := json.Marshal(answer)
		if err != nil {
			fmt.Fprintln(stderr, err)
			os.Exit(1)
		}
		out.Write(encoded)
		out.WriteByte('\n')
		out.Flush()
	}
}

// drain reads what was printed on the standard error, and empties it.
func drain(file *os.File) []string {
	file.Seek(0, io.SeekStart)
	text, _ := io.ReadAll(file)
	file.Truncate(0)
	file.Seek(0, io.SeekStart)
	lines := []string{}
	for _, line := range strings.Split(string(text), "\n") {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func render(asked *request) (answer response) {
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())
			answer = response{Error: &text, Internal: true}
		}
	}()
	files := filesys.MakeFsInMemory()
	fresh := false
	for name, content := range asked.Files {
		fresh = fresh || ownSchema.MatchString(content)
		if err := files.WriteFile("/"+name, []byte(content)); err != nil {
			text := err.Error()
			return response{Error: &text}
		}
	}
	for name, content := range asked.Binaries {
		if err := files.WriteFile("/"+name, content); err != nil {
			text := err.Error()
			return response{Error: &text}
		}
	}
	if fresh {
		openapi.ResetOpenAPI()
		defer openapi.ResetOpenAPI()
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	if asked.Order == "none" {
		options.Reorder = krusty.ReorderOptionNone
	}
	if asked.Anywhere {
		options.LoadRestrictions = types.LoadRestrictionsNone
	}
	text, err := build(options, files, "/"+asked.Directory)
	if err != nil {
		message := err.Error()
		return response{Error: &message}
	}
	return response{Output: text}
}

func build(options *krusty.Options, files filesys.FileSystem, directory string) (string, error) {
	var resources resmap.ResMap
	resources, err := krusty.MakeKustomizer(options).Run(files, directory)
	if err != nil {
		return "", err
	}
	text, err := resources.AsYaml()
	return string(text), err
}
