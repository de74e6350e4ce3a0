//! Where upstream tells what is new in a version, as far as the bundle or the manifests name it.

use std::collections::BTreeSet;

use overlays::RenderedTree;
use rollout::StagePlan;
use yaml::{Node, Value};

use planning::difference::{harmless, is_manifest, objects};

/// The most links that are given.
const MOST: usize = 12;

/// What the name of an annotation says that holds such an address.
const NAMES: &[&str] = &["releasenotes", "changelog"];

/// Addresses of release notes: those of releases that artifacts of the bundle are downloaded from, and those that annotations of what is
/// deployed name. In order, each once.
pub fn release_notes<'a>(
    stages: impl IntoIterator<Item = &'a StagePlan>,
    after: impl IntoIterator<Item = &'a RenderedTree>,
) -> Vec<String> {
    let artifacts = stages.into_iter().flat_map(|stage| &stage.changes).flat_map(|change| &change.artifacts);
    let mut found: BTreeSet<String> =
        artifacts.filter_map(|artifact| of_download(artifact.new_uri.as_deref()?)).collect();
    for tree in after {
        let files = tree.files.iter().filter(|(path, _)| is_manifest(path.as_str()));
        let files = files.map(|(path, bytes)| (path.to_string(), bytes.to_vec()));
        let Ok(objects) = objects(files) else { continue };
        for object in objects.iter() {
            let annotations = object.node().get("metadata").and_then(|metadata| metadata.get("annotations"));
            found.extend(annotations.into_iter().flat_map(of_annotations));
        }
    }
    found.into_iter().take(MOST).collect()
}

/// The page of a release whose file this is: GitHub's form, which GitLab and Gitea have too, but for what is before it.
fn of_download(uri: &str) -> Option<String> {
    let (repository, file) = address(uri)?.split_once("/releases/download/")?;
    let (tag, _) = file.rsplit_once('/')?;
    Some(format!("{repository}/releases/tag/{tag}"))
}

fn of_annotations(annotations: &Node) -> Vec<String> {
    let Value::Mapping(mapping) = &annotations.value else { return Vec::new() };
    let named = mapping.iter().filter(|entry| {
        let name: String = entry.key.rsplit('/').next().unwrap_or_default().chars().filter(|c| *c != '-').collect();
        NAMES.contains(&name.to_ascii_lowercase().as_str())
    });
    named.filter_map(|entry| address(entry.value.as_str()?)).map(str::to_owned).collect()
}

/// An address that can be shown to everybody.
fn address(text: &str) -> Option<&str> {
    harmless(text).filter(|text| text.starts_with("https://") && !text.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_names_its_release() {
        for (uri, wanted) in [
            (
                "https://github.com/cert-manager/cert-manager/releases/download/v1.18.2/cert-manager.yaml",
                Some("https://github.com/cert-manager/cert-manager/releases/tag/v1.18.2"),
            ),
            ("https://github.com/a/b/releases/download/c/v1/x.yaml", Some("https://github.com/a/b/releases/tag/c/v1")),
            ("https://example.com/manifest.yaml", None),
            ("http://github.com/a/b/releases/download/v1/x.yaml", None),
            ("https://me:SECRET@github.com/a/b/releases/download/v1/x.yaml", None),
            ("https://github.com/a/b/releases/download/v1/x.yaml?token=SECRET", None),
            ("https://github.com/a/b/releases/download/v1)<x>/x.yaml", None),
        ] {
            assert_eq!(of_download(uri).as_deref(), wanted, "{uri}");
        }
    }

    #[test]
    fn annotations_name_addresses_and_nothing_else() {
        let text = "apiVersion: v1\nkind: X\nmetadata:\n  name: x\n  annotations:\n    a.example.com/release-notes: https://a.example.com/notes/v1\n    \
                    changelog: https://b.example.com/CHANGELOG.md\n    b/changelog: 'javascript:alert(1)'\n    c/releaseNotes: https://u:SECRET@c.example.com/\n    \
                    d/other: https://d.example.com/\n";
        let tree = RenderedTree {
            files: [(domain::RepoPath::new("x.yaml").unwrap(), std::sync::Arc::from(text.as_bytes()))].into(),
        };
        assert_eq!(
            release_notes([], [&tree]),
            ["https://a.example.com/notes/v1", "https://b.example.com/CHANGELOG.md"]
        );
    }
}
