//! Author, signing, Flux and fetching of `stepgate.yaml`.

use kustomize_rs::yaml::Node;

use super::read::Reader;
use super::types::{Author, FluxPolicy, Signing, SigningFormat};

impl Reader<'_> {
    pub(super) fn author(&mut self, node: &Node, author: &mut Author) {
        for entry in self.mapping(node, "author").into_iter().flatten() {
            let field = match entry.key.as_str() {
                "name" => &mut author.name,
                "email" => &mut author.email,
                _ => {
                    self.unknown(entry, "author", &["name", "email"]);
                    continue;
                }
            };
            if let Some(text) = self.text(&entry.value, "author") {
                if text.contains(['<', '>', '\n']) {
                    self.problem(entry.value.span, "author must not hold <, > or line ends", None);
                } else {
                    *field = text;
                }
            }
        }
    }

    pub(super) fn signing(&mut self, node: &Node) -> Option<Signing> {
        let (mut format, mut key) = (SigningFormat::Ssh, None);
        for entry in self.mapping(node, "signing")? {
            match entry.key.as_str() {
                "format" => {
                    let choices = [("ssh", SigningFormat::Ssh), ("gpg", SigningFormat::Gpg)];
                    format = self.choice(&entry.value, "signing.format", &choices).unwrap_or(format);
                }
                "key" => {
                    key = self.text(&entry.value, "signing.key");
                    if key.as_deref().is_some_and(|key| key.contains("PRIVATE KEY")) {
                        let hint = "name the path of the key on the machine of Stepgate".to_owned();
                        self.problem(entry.value.span, "signing.key must not be a key itself", Some(hint));
                        key = None;
                    }
                }
                _ => self.unknown(entry, "signing", &["format", "key"]),
            }
        }
        if key.is_none() {
            self.problem(node.span, "signing needs a key", None);
        }
        Some(Signing { format, key: key? })
    }

    pub(super) fn flux(&mut self, node: &Node, flux: &mut FluxPolicy) {
        for entry in self.mapping(node, "flux").into_iter().flatten() {
            match entry.key.as_str() {
                "namespace" => {
                    if let Some(namespace) = self.text(&entry.value, "flux.namespace") {
                        flux.namespace = namespace;
                    }
                }
                "interval" => {
                    if let Some(interval) = self.duration(&entry.value, "flux.interval") {
                        flux.interval = interval;
                    }
                }
                "source" => {
                    for field in self.mapping(&entry.value, "flux.source").into_iter().flatten() {
                        let slot = match field.key.as_str() {
                            "kind" => &mut flux.source.kind,
                            "name" => &mut flux.source.name,
                            _ => {
                                self.unknown(field, "flux.source", &["kind", "name"]);
                                continue;
                            }
                        };
                        if let Some(text) = self.text(&field.value, "flux.source") {
                            *slot = text;
                        }
                    }
                }
                _ => self.unknown(entry, "flux", &["namespace", "source", "interval"]),
            }
        }
    }

    pub(super) fn fetch(&mut self, node: &Node) -> Vec<String> {
        let mut allow = Vec::new();
        for entry in self.mapping(node, "fetch").into_iter().flatten() {
            match entry.key.as_str() {
                "allow" => {
                    for text in self.texts(&entry.value, "fetch.allow") {
                        if text.contains("://") {
                            let hint = "write host or host/path without https://".to_owned();
                            self.problem(entry.value.span, format!("fetch.allow: {text:?} is an address"), Some(hint));
                        } else {
                            allow.push(text);
                        }
                    }
                }
                _ => self.unknown(entry, "fetch", &["allow"]),
            }
        }
        allow
    }
}
