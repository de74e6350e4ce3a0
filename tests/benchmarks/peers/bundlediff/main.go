// Bundlediff lists every component of two Bundles whose version, address or digest differs: what a Go tool over
// sigs.k8s.io/yaml does. Usage: bundlediff [-rounds N] OLD NEW
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

type artifact struct{ uri, digest string }

type component struct {
	version   string
	artifacts map[string]artifact
}

func main() {
	rounds := flag.Int("rounds", 1, "how often the work is done")
	flag.Parse()
	old, err := os.ReadFile(flag.Arg(0))
	check(err)
	new, err := os.ReadFile(flag.Arg(1))
	check(err)
	for round := 0; round < *rounds; round++ {
		output := io.Discard
		if round == 0 {
			output = os.Stdout
		}
		writer := bufio.NewWriter(output)
		compare(writer, read(old), read(new))
		check(writer.Flush())
	}
}

func read(content []byte) map[string]map[string]component {
	versions := map[string]map[string]component{}
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		var object map[string]any
		check(yaml.Unmarshal(document, &object))
		if object["kind"] != "Bundles" {
			continue
		}
		for _, item := range object["spec"].(map[string]any)["versionsBundles"].([]any) {
			bundle := item.(map[string]any)
			components := map[string]component{}
			for name, value := range bundle {
				fields, ok := value.(map[string]any)
				if !ok {
					continue
				}
				found := component{version: text(fields["version"]), artifacts: map[string]artifact{}}
				collect(fields, "", found.artifacts)
				components[name] = found
			}
			versions[text(bundle["kubeVersion"])] = components
		}
	}
	return versions
}

func collect(fields map[string]any, path string, artifacts map[string]artifact) {
	if uri, ok := fields["uri"].(string); ok {
		digest := text(fields["imageDigest"])
		if digest == "-" {
			digest = text(fields["sha256"])
		}
		artifacts[path] = artifact{uri, digest}
	}
	for name, value := range fields {
		if path != "" {
			name = path + "." + name
		}
		nested(value, name, artifacts)
	}
}

func nested(value any, path string, artifacts map[string]artifact) {
	switch value := value.(type) {
	case map[string]any:
		collect(value, path, artifacts)
	case []any:
		for index, item := range value {
			nested(item, path+"."+strconv.Itoa(index), artifacts)
		}
	}
}

func text(value any) string {
	if text, ok := value.(string); ok && text != "" {
		return text
	}
	return "-"
}

func compare(writer *bufio.Writer, old, new map[string]map[string]component) {
	for _, kubernetes := range union(old, new, minor) {
		for _, name := range union(old[kubernetes], new[kubernetes], nil) {
			before, wasThere := old[kubernetes][name]
			after, isThere := new[kubernetes][name]
			var lines []string
			for _, path := range union(before.artifacts, after.artifacts, nil) {
				from, had := before.artifacts[path]
				to, has := after.artifacts[path]
				if from != to {
					if !had {
						from = artifact{"-", "-"}
					}
					if !has {
						to = artifact{"-", "-"}
					}
					lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s %s", kubernetes, name, path, from.uri, to.uri, from.digest, to.digest))
				}
			}
			if !wasThere {
				before.version = "-"
			}
			if !isThere {
				after.version = "-"
			}
			if len(lines) == 0 && before.version == after.version && wasThere == isThere {
				continue
			}
			fmt.Fprintf(writer, "%s %s %s %s\n", kubernetes, name, before.version, after.version)
			for _, line := range lines {
				fmt.Fprintln(writer, line)
			}
		}
	}
}

// union returns the keys of both maps in order.
func union[V any](one, two map[string]V, number func(string) int) []string {
	keys := map[string]bool{}
	for key := range one {
		keys[key] = true
	}
	for key := range two {
		keys[key] = true
	}
	var sorted []string
	for key := range keys {
		sorted = append(sorted, key)
	}
	sort.Slice(sorted, func(i, j int) bool {
		if number != nil && number(sorted[i]) != number(sorted[j]) {
			return number(sorted[i]) < number(sorted[j])
		}
		return sorted[i] < sorted[j]
	})
	return sorted
}

func minor(version string) int {
	_, text, _ := strings.Cut(version, ".")
	number, _ := strconv.Atoi(text)
	return number
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundlediff:", err)
		os.Exit(1)
	}
}
