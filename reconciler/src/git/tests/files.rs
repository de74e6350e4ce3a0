//! A kustomization gives the same bytes from git, from disk and from memory.

use std::path::Path;

use kustomize_rs::{DiskFileSystem, FileError, FileSystem, MemoryFileSystem, Options, build};
use proptest::prelude::*;

use super::*;
use crate::git::GitFileSystem;

fn git(sandbox: &Sandbox) -> GitFileSystem {
    let branch: BranchName = "main".parse().unwrap();
    GitFileSystem::new(sandbox.open().snapshot(&branch).unwrap())
}

fn disk(folder: &Path, files: &[(String, String)]) -> DiskFileSystem {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    DiskFileSystem::new(folder).unwrap()
}

/// Overlays that stand over one another, each in a folder of its own; some with a component, a generator, a patch, a
/// path that is wrong.
fn trees() -> impl Strategy<Value = Vec<(String, String)>> {
    let layer = (prop::sample::select(vec!["a", "b/c", "d-1/e", "ü"]), "[a-z]{0,3}", any::<[bool; 5]>());
    prop::collection::vec(layer, 1..5).prop_map(|layers| {
        let mut files = Vec::new();
        let mut below: Option<String> = None;
        for (index, (folder, prefix, [generates, patches, component, wrong, restricted])) in layers.into_iter().enumerate() {
            let folder = format!("{index}/{folder}");
            let up = "../".repeat(folder.split('/').count());
            let mut text = format!("namePrefix: {prefix}{index}-\nresources:\n- own.yaml\n");
            text += &below.map(|below| format!("- {up}{below}\n")).unwrap_or_default();
            text += if wrong && restricted { "- ../missing.yaml\n" } else { "" };
            if generates {
                text += "configMapGenerator:\n- name: generated\n  files: [data/x.txt]\n";
                files.push((format!("{folder}/data/x.txt"), format!("text {prefix}\n")));
            }
            if patches {
                text += "patches:\n- target: {kind: ConfigMap}\n  patch: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {\"p\": \"q\"}}]'\n";
            }
            if component {
                text += &format!("components: [{up}part]\n");
            }
            files.push((
                "part/kustomization.yaml".to_owned(),
                "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {part: \"1\"}\n".to_owned(),
            ));
            files.push((format!("{folder}/kustomization.yaml"), text));
            files.push((
                format!("{folder}/own.yaml"),
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: own-{index}}}\n"),
            ));
            below = Some(folder);
        }
        files.push(("kustomization.yaml".to_owned(), format!("resources: [\"{}\"]\n", below.unwrap_or_default())));
        files.sort();
        files.dedup();
        files
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn memory_disk_and_git_give_the_same_bytes(files in trees()) {
        let texts: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let sandbox = Sandbox::with_files(&texts);
        let folder = TempDir::new().unwrap();
        let memory: MemoryFileSystem = files.iter().map(|(path, text)| (path, text.as_bytes())).collect();
        let built = |files: &dyn FileSystem| {
            build(files, "", &Options::default()).map(|resources| resources.to_yaml()).map_err(|error| error.to_string())
        };
        let expected = built(&memory);
        prop_assert_eq!(&built(&disk(folder.path(), &files)), &expected);
        prop_assert_eq!(&built(&git(&sandbox)), &expected);
    }
}

/// Links as git keeps them, on disk too.
#[test]
fn links_are_followed_inside_of_the_tree_only() {
    let folder = TempDir::new().unwrap();
    let top = folder.path().join("tree");
    std::fs::write(folder.path().join("outside"), "canary").unwrap();
    std::fs::create_dir_all(top.join("a/b")).unwrap();
    std::fs::write(top.join("a/b/file"), "text").unwrap();
    for (link, target) in [
        ("to-file", "a/b/file"),
        ("to-folder", "a/./b"),
        ("a/up", "../to-folder"),
        ("out", "../outside"),
        ("absolute", "/etc/passwd"),
        ("round", "round"),
        ("dangling", "a/nothing"),
    ] {
        std::os::unix::fs::symlink(target, top.join(link)).unwrap();
    }
    let sandbox = Sandbox::empty();
    sandbox.git_in(&top, &["init", "-q", "-b", "main", "."]);
    sandbox.git_in(&top, &["add", "."]);
    sandbox.git_in(&top, &["commit", "-q", "-m", "Add links"]);
    sandbox.git_in(&top, &["push", "-q", sandbox.path().to_str().unwrap(), "main"]);
    let (git, disk) = (git(&sandbox), DiskFileSystem::new(&top).unwrap());
    for files in [&git as &dyn FileSystem, &disk] {
        for path in ["a/b/file", "to-file", "to-folder/file", "a/up/file"] {
            assert_eq!(&*files.read(path).unwrap(), b"text", "{path}");
            assert_eq!(files.canonical(path).unwrap(), "a/b/file", "{path}");
        }
        assert!(files.is_dir("a/up") && files.is_dir("") && !files.is_dir("to-file") && !files.is_dir("out"));
        assert_eq!(files.list("a/up").unwrap(), ["file"]);
        assert_eq!(files.read("a"), Err(FileError::NotAFile));
        assert_eq!(files.read("dangling"), Err(FileError::Missing));
        assert_eq!(files.read("a/b/file/x"), Err(FileError::Missing));
        for path in ["out", "absolute"] {
            assert_eq!(files.read(path), Err(FileError::Outside), "{path}");
        }
        assert!(matches!(files.read("round"), Err(FileError::Other(_))));
    }
}
