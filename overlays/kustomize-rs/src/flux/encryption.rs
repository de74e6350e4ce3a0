//! What is encrypted with SOPS. Decrypting needs keys, so it stays as it is here; but it is told, and refused where Flux
//! refuses it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use yaml::{Node, Value};

use crate::error::BuildError;
use crate::resource::{Resource, Resources};

/// Annotation of an object that is not to be decrypted, with the value `disabled`.
const MARK: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// What shows that a text was encrypted: the check sum in the forms of each format, and the start of each value.
const SIGNS: [&str; 4] = ["\"mac\": \"ENC[", "sops_mac=ENC[", "mac: ENC[", "ENC[AES256_GCM,"];

/// Warns of every encrypted object.
///
/// # Errors
/// As in Flux, an encrypted Secret where `spec.decryption` is not set (`decrypts`).
pub(super) fn check(resources: &Resources, decrypts: bool, warnings: &mut Vec<String>) -> Result<(), BuildError> {
    for resource in resources.items.iter().filter(|resource| !is_exempt(resource)) {
        let (kind, name) = (resource.kind(), resource.name());
        let is_secret = kind == "Secret" && resource.node.get("apiVersion").and_then(Node::as_str) == Some("v1");
        if !decrypts && is_secret && resource.node.get("sops").is_some() {
            let error =
                BuildError::transform(format!("the Secret `{name}` is encrypted with SOPS, which Flux refuses"))
                    .hint("set `spec.decryption` of the Kustomization object");
            let file = &resource.origin.file;
            return Err(if file.is_empty() { error } else { error.at(file, resource.node.span) });
        }
        if is_encrypted(&resource.node) {
            let place = match &*resource.origin.file {
                "" => String::new(),
                file => format!("{file}:{}: ", resource.origin.line),
            };
            let then = if decrypts { "Flux decrypts it" } else { "Flux would not decrypt it either" };
            warnings.push(format!("# Warning: {place}the {kind} `{name}` is encrypted and stays so here; {then}."));
        }
    }
    Ok(())
}

fn is_exempt(resource: &Resource) -> bool {
    resource.annotation(MARK).is_some_and(|value| value.eq_ignore_ascii_case("disabled"))
}

/// Whether an object is encrypted with SOPS, or is a Secret that holds what is. One that is marked as not to be decrypted is not.
pub fn is_encrypted(object: &Node) -> bool {
    let mark = object.at(&["metadata", "annotations"]).and_then(|annotations| annotations.get(MARK));
    let is_exempt = mark.and_then(Node::as_str).is_some_and(|value| value.eq_ignore_ascii_case("disabled"));
    let sum = object.at(&["sops", "mac"]);
    let is_whole = sum.is_some_and(|sum| !sum.is_null() && sum.as_str() != Some(""));
    let text = |field| object.get(field).and_then(Node::as_str);
    let is_secret = text("kind") == Some("Secret") && text("apiVersion") == Some("v1");
    !is_exempt && (is_whole || is_secret && has_encrypted_data(object))
}

/// Files that a generator has read would have been decrypted before.
fn has_encrypted_data(object: &Node) -> bool {
    let decoded = |value: &Node| match &value.value {
        // Long ones are broken into lines.
        Value::String(text) => STANDARD.decode(text.split_whitespace().collect::<String>()).ok(),
        _ => None,
    };
    let holds_sign = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes);
        SIGNS.iter().any(|sign| text.contains(sign))
    };
    let data = object.get("data").and_then(Node::as_mapping);
    let is_plain = |value: &Node| value.as_str().is_some_and(|text| SIGNS.iter().any(|sign| text.contains(sign)));
    let plain = object.get("stringData").and_then(Node::as_mapping);
    data.into_iter().flatten().any(|entry| decoded(&entry.value).is_some_and(holds_sign))
        || plain.into_iter().flatten().any(|entry| is_plain(&entry.value))
}
