// Kustomizeloop builds directories with kustomize's own library, many times in one process, and prints the first
// round. Usage: kustomizeloop [-rounds N] [-disk] ROOT DIRECTORY...
//
// The files are read into memory first, as they are on the other side; -disk leaves them where they are.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	rounds := flag.Int("rounds", 1, "how often the work is done")
	disk := flag.Bool("disk", false, "read the files from the disk every time")
	flag.Parse()
	root, directories := flag.Arg(0), flag.Args()[1:]
	files := filesys.MakeFsOnDisk()
	if !*disk {
		files = filesys.MakeFsInMemory()
		check(filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return files.WriteFile(path, content)
		}))
	}
	writer := bufio.NewWriter(os.Stdout)
	for round := 0; round < *rounds; round++ {
		for _, directory := range directories {
			options := krusty.MakeDefaultOptions()
			options.Reorder = krusty.ReorderOptionLegacy
			options.LoadRestrictions = types.LoadRestrictionsNone
			resources, err := krusty.MakeKustomizer(options).Run(files, filepath.Join(root, directory))
			check(err)
			text, err := resources.AsYaml()
			check(err)
			if round == 0 {
				_, err = writer.Write(text)
				check(err)
			}
		}
	}
	check(writer.Flush())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kustomizeloop:", err)
		os.Exit(1)
	}
}
