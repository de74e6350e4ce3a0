// Detect lists, between two commits, every cluster's versions that differ: what a Go tool over the git program and
// sigs.k8s.io/yaml does. Usage: detect REPOSITORY OLD NEW
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"sigs.k8s.io/yaml"
)

type entry struct{ path, old, new string }

type version struct{ what, value string }

func main() {
	repository, old, new := os.Args[1], os.Args[2], os.Args[3]
	listing, err := exec.Command("git", "-C", repository, "diff-tree", "-r", "-z", "--no-renames", old, new).Output()
	check(err)
	fields := strings.Split(strings.TrimSuffix(string(listing), "\x00"), "\x00")
	var entries []entry
	for i := 0; i+1 < len(fields); i += 2 {
		columns := strings.Fields(fields[i])
		entries = append(entries, entry{path: fields[i+1], old: columns[2], new: columns[3]})
	}

	batch := exec.Command("git", "-C", repository, "cat-file", "--batch")
	input, err := batch.StdinPipe()
	check(err)
	output, err := batch.StdoutPipe()
	check(err)
	check(batch.Start())
	go func() {
		writer := bufio.NewWriter(input)
		for _, entry := range entries {
			fmt.Fprintf(writer, "%s\n%s\n", entry.old, entry.new)
		}
		writer.Flush()
		input.Close()
	}()
	reader := bufio.NewReaderSize(output, 1<<16)
	writer := bufio.NewWriter(os.Stdout)
	for _, entry := range entries {
		before, after := versions(blob(reader)), versions(blob(reader))
		cluster := strings.Split(entry.path, "/")[1]
		for _, version := range after {
			value := "-"
			for _, old := range before {
				if old.what == version.what {
					value = old.value
				}
			}
			if value != version.value {
				fmt.Fprintf(writer, "%s %s %s %s\n", cluster, version.what, value, version.value)
			}
		}
	}
	check(writer.Flush())
	check(batch.Wait())
}

func blob(reader *bufio.Reader) []byte {
	header, err := reader.ReadString('\n')
	check(err)
	if strings.HasSuffix(header, " missing\n") {
		return nil
	}
	var id, kind string
	var size int
	_, err = fmt.Sscanf(header, "%s %s %d", &id, &kind, &size)
	check(err)
	content := make([]byte, size+1)
	_, err = io.ReadFull(reader, content)
	check(err)
	return content[:size]
}

func versions(content []byte) []version {
	var found []version
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		var object map[string]any
		check(yaml.Unmarshal(document, &object))
		images, _ := object["images"].([]any)
		for _, image := range images {
			image := image.(map[string]any)
			found = append(found, version{image["name"].(string), image["newTag"].(string)})
		}
		spec, _ := object["spec"].(map[string]any)
		for _, field := range []string{"kubernetesVersion", "eksaVersion"} {
			if value, ok := spec[field].(string); ok {
				found = append(found, version{field, value})
			}
		}
	}
	return found
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "detect:", err)
		os.Exit(1)
	}
}
