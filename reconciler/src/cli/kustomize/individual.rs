//! One file for each object, named as kustomize names them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kustomize_rs::{Resource, Resources};
use yaml::{Text, emit};

use crate::cli::CommandError;

/// Writes the objects into `directory`. All names are checked before anything is written.
pub fn write(resources: &Resources, directory: &Path) -> Result<(), CommandError> {
    for (name, resource) in names(resources)? {
        let path = directory.join(&name);
        std::fs::write(&path, emit(resource.node()))
            .map_err(|error| CommandError::from(error).context(format!("cannot write {}", path.display())))?;
    }
    Ok(())
}

fn names(resources: &Resources) -> Result<BTreeMap<String, &Resource>, CommandError> {
    let namespaced = resources.iter().filter(|resource| !resource.is_cluster_scoped());
    let several = namespaced.map(namespace).collect::<BTreeSet<_>>().len() > 1;
    let mut names: BTreeMap<String, &Resource> = BTreeMap::new();
    for resource in resources.iter() {
        let name = file_name(resource, several);
        if name.contains(['/', '\\', '\0']) {
            let message = format!("the {} `{}` cannot be a file of its own", resource.gvk().kind, resource.name());
            let error = CommandError::new(message).hint("its kind, version or name holds a character of paths");
            return Err(error.hint("write all objects to one file"));
        }
        if names.insert(name.clone(), resource).is_some() {
            let error = CommandError::new(format!("two objects would be written to {name}"));
            return Err(error.hint("write all objects to one file"));
        }
    }
    Ok(names)
}

fn namespace(resource: &Resource) -> Text {
    let namespace = resource.namespace();
    if namespace.is_empty() { "default".into() } else { namespace }
}

/// `[namespace_][group_]version_kind_name.yaml` in lower case; the namespace only where there are several.
fn file_name(resource: &Resource, several_namespaces: bool) -> String {
    let gvk = resource.gvk();
    let mut parts = Vec::new();
    if several_namespaces && !resource.is_cluster_scoped() {
        parts.push(namespace(resource));
    }
    parts.extend([gvk.group, gvk.version, gvk.kind].into_iter().filter(|part| !part.is_empty()));
    parts.push(resource.name());
    format!("{}.yaml", parts.join("_").to_lowercase())
}

#[cfg(test)]
mod tests {
    use kustomize_rs::{MemoryFileSystem, Options, build};

    use super::*;

    fn check(objects: &str, expected: Result<&[&str], &str>) {
        let files = [("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", objects)];
        let files: MemoryFileSystem = files.into_iter().map(|(path, text)| (path, text.as_bytes())).collect();
        let resources = build(&files, "", &Options::default()).unwrap();
        let found = names(&resources).map(|names| names.into_keys().collect::<Vec<_>>());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    fn object(version: &str, kind: &str, name: &str, namespace: &str) -> String {
        format!(
            "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: \"{name}\", namespace: \"{namespace}\"}}\n"
        )
    }

    #[test]
    fn files_are_named_as_kustomize_names_them() {
        let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", "system:Node", "");
        let one = object("v1", "ConfigMap", "a", "") + &role;
        check(&one, Ok(&["rbac.authorization.k8s.io_v1_clusterrole_system:node.yaml", "v1_configmap_a.yaml"]));
        let two = object("v1", "ConfigMap", "a", "") + &object("v1", "ConfigMap", "a", "X") + &role;
        check(
            &two,
            Ok(&[
                "default_v1_configmap_a.yaml",
                "rbac.authorization.k8s.io_v1_clusterrole_system:node.yaml",
                "x_v1_configmap_a.yaml",
            ]),
        );
    }

    #[test]
    fn names_lead_to_no_other_directory_and_hide_no_object() {
        check(&object("v1", "ConfigMap", "/../../x", ""), Err("cannot be a file of its own"));
        check(&object("g/../v1", "A", "x", ""), Err("cannot be a file of its own"));
        let twins = object("v1", "ConfigMap", "a", "") + &object("v1", "ConfigMap", "A", "");
        check(&twins, Err("two objects would be written to v1_configmap_a.yaml"));
    }
}
