//! Files of a bootstrap configuration that the node upgrader writes: kube-vip's manifest, and what containerd reads of
//! registries.
//!
//! Each is read by its user without a command, so that a node with the file is like a new one. Every other file stays as
//! cloud-init wrote it, and so does one that a command of the configuration goes over.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bundles::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The static Pod of the control plane's virtual address.
pub const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

/// Mirrors and certificates of registries, a folder for each: containerd reads them at every pull.
const REGISTRIES: &str = "/etc/containerd/certs.d/";

/// No longer file goes to a node.
const MOST_BYTES: usize = 64 << 10;

/// What cloud-init gives a file of which nothing is said.
const USUAL_MODE: u32 = 0o644;

/// The name of the list in the folder of [`folder`].
const LIST: &str = "files.json";

/// A file that a node has to have, without its content: that may be a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeFile {
    /// On the node.
    pub path: String,
    /// Of its content.
    pub sha256: Digest,
    /// Who may do what, in octal digits.
    pub mode: String,
}

/// Such a file with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeFile {
    /// What it is known by.
    pub file: NodeFile,
    /// What is in it.
    pub content: Vec<u8>,
}

/// Whether files of this path are written at all.
#[must_use]
pub(crate) fn is_written(path: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let in_folder = |rest: &str| rest.split('/').count() > 1 && rest.split('/').all(is_plain);
    path == KUBE_VIP || path.strip_prefix(REGISTRIES).is_some_and(in_folder)
}

/// The file that an entry of `files` describes, where `specification` is the configuration that it is in.
///
/// # Errors
/// Why the node upgrader does not write it.
pub(crate) fn written(entry: &Value, specification: &Value) -> Result<WholeFile, String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let path = text("path");
    if !is_written(path) {
        return Err("is not brought to a node in place".to_owned());
    }
    if entry.get("contentFrom").is_some_and(|value| !value.is_null()) {
        return Err("is not brought to a node in place: its content is in a Secret".to_owned());
    }
    if entry.get("append").and_then(Value::as_bool).unwrap_or_default() {
        return Err("is not brought to a node in place: it is appended to what is there".to_owned());
    }
    if !["", "root", "root:root"].contains(&text("owner")) {
        return Err(format!("is not brought to a node in place: its owner is {}", text("owner")));
    }
    let content = content(text("encoding"), text("content"))?;
    if content.len() > MOST_BYTES {
        return Err(format!("is not brought to a node in place: it is longer than {} KiB", MOST_BYTES >> 10));
    }
    if path == KUBE_VIP && !is_pod(&content) {
        return Err("is not brought to a node in place: it is not the manifest of a Pod with an image".to_owned());
    }
    if let Some(command) = command_over(path, specification) {
        return Err(format!("is not brought to a node in place: {command} goes over it"));
    }
    let mode = mode(text("permissions"))?;
    let sha256 = Digest::of(&content);
    Ok(WholeFile { file: NodeFile { path: path.to_owned(), sha256, mode: format!("{mode:04o}") }, content })
}

/// All files of a configuration that a node upgrader writes, by path.
#[must_use]
pub fn files(specification: &Value) -> Vec<WholeFile> {
    let entries = specification.get("files").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // What is named twice is nothing that could be told: the last one to be written counts.
    let is_single = |entry: &&Value| entries.iter().filter(|other| other.get("path") == entry.get("path")).count() == 1;
    let files = entries.iter().filter(is_single).filter_map(|entry| written(entry, specification).ok());
    let mut files: Vec<WholeFile> = files.collect();
    files.sort_by(|one, other| one.file.cmp(&other.file));
    files
}

/// What these are known by.
#[must_use]
pub fn known(files: &[WholeFile]) -> Vec<NodeFile> {
    files.iter().map(|file| file.file.clone()).collect()
}

/// The files as a folder that `stepgate-node` reads: a list, and the contents by number.
#[must_use]
pub fn folder(files: &[WholeFile]) -> Vec<(String, Vec<u8>)> {
    let entry = |(number, file): (usize, &WholeFile)| {
        let NodeFile { path, sha256, mode } = &file.file;
        json!({"path": path, "source": number.to_string(), "sha256": sha256.to_string(), "mode": mode})
    };
    let list = json!({"files": files.iter().enumerate().map(entry).collect::<Vec<_>>()});
    let contents = files.iter().enumerate().map(|(number, file)| (number.to_string(), file.content.clone()));
    [(LIST.to_owned(), list.to_string().into_bytes())].into_iter().chain(contents).collect()
}

fn content(encoding: &str, text: &str) -> Result<Vec<u8>, String> {
    match encoding {
        // cloud-init reads the whole of its data as a template.
        "" if ["{{", "{%", "{#"].iter().any(|opens| text.contains(opens)) => {
            Err("is not brought to a node in place: cloud-init fills it in on each machine".to_owned())
        }
        "" => Ok(text.as_bytes().to_vec()),
        "base64" => STANDARD
            .decode(text.split_whitespace().collect::<String>())
            .map_err(|_| "is not brought to a node in place: it is not valid base64".to_owned()),
        other => Err(format!("is not brought to a node in place: encoding {other:?} is not read")),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Ok(USUAL_MODE);
    }
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o755 == 0 && mode & 0o400 != 0 => Ok(mode),
        _ => Err(format!("is not brought to a node in place: permissions {text:?} are not between 0400 and 0755")),
    }
}

fn is_pod(content: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(content) else { return false };
    let Ok(documents) = yaml::parse(text, &yaml::Limits::default()) else { return false };
    let [document] = documents.as_slice() else { return false };
    let Ok(manifest) = serde_json::from_str::<Value>(&yaml::json::to_json(&document.root)) else { return false };
    let has_image = manifest.pointer("/spec/containers/0/image").is_some_and(Value::is_string);
    has_image && manifest.get("kind").and_then(Value::as_str) == Some("Pod")
}

/// The list of commands that names the file, or its folder.
fn command_over(path: &str, specification: &Value) -> Option<&'static str> {
    let word = if path == KUBE_VIP { "kube-vip.yaml" } else { "certs.d" };
    let names_it = |list: &&'static str| {
        let commands = specification.get(*list).and_then(Value::as_array).into_iter().flatten();
        commands.filter_map(Value::as_str).any(|command| command.contains(word))
    };
    ["preKubeadmCommands", "postKubeadmCommands", "bootCommands"].iter().find(|list| names_it(list)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIRROR: &str = "/etc/containerd/certs.d/registry.test/hosts.toml";
    const POD: &str = "kind: Pod\nspec: {containers: [{image: 'kube-vip:v1'}]}\n";

    fn why_not(change: impl FnOnce(&mut Value)) -> String {
        let mut specification = json!({"files": [{"path": MIRROR, "owner": "root:root", "content": "server"}]});
        change(&mut specification);
        let entry = specification["files"][0].clone();
        let why = written(&entry, &specification).err().unwrap_or_default();
        assert_eq!(files(&specification).is_empty(), !why.is_empty(), "{why}");
        why
    }

    #[test]
    fn what_is_read_without_a_command_is_written_with_content_and_mode() {
        let ca = "/etc/containerd/certs.d/registry.test:5000/ca.crt";
        let specification = json!({"files": [
            {"path": KUBE_VIP, "content": POD, "permissions": "0600"},
            {"path": "/etc/hosts", "content": "127.0.0.1 localhost"},
            {"path": ca, "content": "aGVs\nbG8=", "encoding": "base64"},
        ]});
        let found = files(&specification);
        let told: Vec<_> = found.iter().map(|file| (file.file.path.as_str(), file.file.mode.as_str())).collect();
        assert_eq!(told, [(ca, "0644"), (KUBE_VIP, "0600")]);
        assert_eq!((found[0].content.as_slice(), found[0].file.sha256), (&b"hello"[..], Digest::of(b"hello")));
        let folder = folder(&found);
        let list: Value = serde_json::from_slice(&folder[0].1).unwrap();
        assert_eq!((folder[0].0.as_str(), folder[1].0.as_str(), folder[2].1.as_slice()), (LIST, "0", POD.as_bytes()));
        assert_eq!(
            list["files"][1],
            json!({"path": KUBE_VIP, "source": "1", "mode": "0600",
            "sha256": Digest::of(POD.as_bytes()).to_string()})
        );
    }

    #[test]
    fn what_a_file_would_not_be_on_a_new_machine_is_not_written() {
        assert_eq!(why_not(|_| {}), "");
        for (place, value, says) in [
            ("path", json!("/etc/motd"), "is not brought to a node"),
            ("path", json!("/etc/containerd/certs.d/../config.toml"), "is not brought to a node"),
            ("path", json!("/etc/containerd/certs.d/hosts.toml"), "is not brought to a node"),
            ("path", json!("/etc/containerd/certs.d/a//hosts.toml"), "is not brought to a node"),
            ("path", json!(KUBE_VIP), "not the manifest of a Pod"),
            ("contentFrom", json!({"secret": {"name": "a", "key": "b"}}), "in a Secret"),
            ("append", json!(true), "appended"),
            ("owner", json!("etcd:etcd"), "owner is etcd:etcd"),
            ("encoding", json!("gzip"), "\"gzip\" is not read"),
            ("encoding", json!("base64"), "not valid base64"),
            ("permissions", json!("4755"), "\"4755\" are not between"),
            ("content", json!("server = \"{{ ds.meta_data.local_hostname }}\""), "cloud-init fills it in"),
            ("content", json!("x".repeat(MOST_BYTES + 1)), "longer than 64 KiB"),
        ] {
            let why = why_not(|specification| {
                let entry = &mut specification["files"][0];
                if place == "encoding" {
                    entry["content"] = json!("no base64!");
                }
                entry[place] = value.clone();
            });
            assert!(why.contains(says), "{place} {value}: {why}");
        }
        let over = |command: &str| why_not(|all| all["preKubeadmCommands"] = json!(["true", command]));
        assert!(over("sed -i s/a/b/ /etc/containerd/certs.d/*/hosts.toml").contains("preKubeadmCommands goes over it"));
        assert_eq!(over("systemctl restart containerd"), "");
    }
}
