// Answers what Flux's library makes of a case, for tests to compare with.
//
// One case per line on standard input, as JSON; one answer per line on standard output, in the same order:
// {"output": "…"} or {"error": "…"}. A case is either a text for the substitution alone
//
//	{"template": "${A:=x}", "variables": {"A": "1"}, "strict": false}
//
// or a source tree with a Flux Kustomization, of which the answer is the generated kustomization ("manifest") and what
// is built from it ("output"):
//
//	{"files": {"a.yaml": "…"}, "links": {"b.yaml": "a.yaml"}, "kustomization": {"spec": {…}},
//	 "sources": {"ConfigMap/vars": {"A": "1"}}, "strict": false}
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/kustomize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/resmap"
)

type testCase struct {
	Template      *string                      `json:"template"`
	Variables     map[string]string            `json:"variables"`
	Strict        bool                         `json:"strict"`
	Files         map[string]string            `json:"files"`
	Links         map[string]string            `json:"links"`
	Kustomization map[string]any               `json:"kustomization"`
	Sources       map[string]map[string]string `json:"sources"`
}

type answer struct {
	Manifest string `json:"manifest,omitempty"`
	Output   string `json:"output"`
	Error    string `json:"error,omitempty"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var given testCase
			if err := json.Unmarshal(line, &given); err != nil {
				fmt.Fprintln(os.Stderr, "flux-kustomize: not a case:", err)
				os.Exit(2)
			}
			if err := out.Encode(answerTo(given)); err != nil {
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}

func answerTo(given testCase) (result answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result.Error = fmt.Sprintf("panic: %v", panicked)
		}
	}()
	var err error
	if given.Template != nil {
		result.Output, err = substitute(given)
	} else {
		result.Manifest, result.Output, err = build(given)
	}
	if err != nil {
		result.Error = err.Error()
		result.Output = ""
	}
	return result
}

func substitute(given testCase) (string, error) {
	return envsubst.Eval(*given.Template, func(name string) (string, bool) {
		value, known := given.Variables[name]
		return value, known || !given.Strict
	})
}

// build does with the library what kustomize-controller does between fetching a source and applying it.
func build(given testCase) (manifest, output string, err error) {
	root, err := os.MkdirTemp("", "flux-case-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(root)
	defer func() {
		if err != nil {
			err = errors.New(strings.ReplaceAll(err.Error(), root, "<SOURCE>"))
		}
	}()
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", "", err
	}
	if err := lay(root, given); err != nil {
		return "", "", err
	}
	object := unstructured.Unstructured{Object: given.Kustomization}
	path, _, _ := unstructured.NestedString(object.Object, "spec", "path")
	directory, err := securejoin.SecureJoin(root, path)
	if err != nil {
		return "", "", err
	}
	if _, err := os.Stat(directory); err != nil {
		return "", "", err
	}
	generator := kustomize.NewGenerator(root, object)
	text, _, _, err := generator.GenerateManifest(directory)
	if err != nil {
		return "", "", err
	}
	manifest = string(text)
	if _, err := generator.WriteFile(directory); err != nil {
		return manifest, "", err
	}
	resources, err := kustomize.SecureBuild(root, directory, false)
	if err != nil {
		return manifest, "", err
	}
	postBuild, isMap, _ := unstructured.NestedMap(object.Object, "spec", "postBuild")
	for _, resource := range resources.Resources() {
		if resource.GetName() == "" || resource.GetKind() == "" || resource.GetApiVersion() == "" {
			return manifest, "", fmt.Errorf("an object without name, kind or apiVersion: %s", resource.String())
		}
		if !isMap {
			continue
		}
		changed, err := kustomize.SubstituteVariables(context.Background(), cluster{sources: given.Sources}, object, resource,
			kustomize.SubstituteWithStrict(given.Strict),
			kustomize.SubstituteWithAlways(postBuild["substituteStrategy"] == "Always"))
		if err != nil {
			return manifest, "", err
		}
		if changed != nil {
			if _, err := resources.Replace(resource); err != nil {
				return manifest, "", err
			}
		}
	}
	output, err = applied(resources, object)
	return manifest, output, err
}

func lay(root string, given testCase) error {
	for path, content := range given.Files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for path, target := range given.Links {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, full); err != nil {
			return err
		}
	}
	return nil
}

// applied prints the objects that are applied, with the metadata that they have then.
func applied(resources resmap.ResMap, object unstructured.Unstructured) (string, error) {
	_, hasCommon, err := unstructured.NestedMap(object.Object, "spec", "commonMetadata")
	if err != nil {
		return "", err
	}
	labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "commonMetadata", "labels")
	if err != nil {
		return "", err
	}
	annotations, _, err := unstructured.NestedStringMap(object.Object, "spec", "commonMetadata", "annotations")
	if err != nil {
		return "", err
	}
	var texts []string
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return "", err
		}
		objects, err := ssautil.ReadObjects(bytes.NewReader(text))
		if err != nil {
			return "", err
		}
		switch {
		case len(objects) == 0:
			// Flux leaves it out.
		case hasCommon:
			ssautil.SetCommonMetadata(objects, labels, annotations)
			texts = append(texts, strings.TrimSuffix(ssautil.ObjectToYAML(objects[0]), "---\n"))
		default:
			texts = append(texts, string(text))
		}
	}
	return strings.Join(texts, "---\n"), nil
}

// cluster answers reads of ConfigMaps and Secrets, and nothing else.
type cluster struct {
	client.Client
	sources map[string]map[string]string
}

func (c cluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch object := object.(type) {
	case *corev1.ConfigMap:
		data, known := c.sources["ConfigMap/"+key.Name]
		if !known {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
		}
		object.Data = data
	case *corev1.Secret:
		data, known := c.sources["Secret/"+key.Name]
		if !known {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
		}
		object.Data = map[string][]byte{}
		for name, value := range data {
			object.Data[name] = []byte(value)
		}
	}
	return nil
}
