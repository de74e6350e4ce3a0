//! Author, signing, Flux, backups and fetching of `stepgate.yaml`.

use std::time::Duration;

use yaml::Node;

use crate::document::format_duration;
use crate::document::read::Reader;
use crate::document::types::{Author, BackupPolicy, FluxDecryption, FluxPolicy, Signing, SigningFormat};

/// The shortest age of a backup that a policy may ask for.
const LEAST_AGE: Duration = Duration::from_secs(10 * 60);

/// What Flux can fetch a deploy branch from so that it is known which commit it has applied.
const SOURCES: [(&str, &str); 2] = [("GitRepository", "GitRepository"), ("OCIRepository", "OCIRepository")];

impl Reader<'_> {
    pub(in crate::document) fn author(&mut self, node: &Node, author: &mut Author) {
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

    pub(in crate::document) fn signing(&mut self, node: &Node) -> Option<Signing> {
        let mut format = SigningFormat::Ssh;
        for entry in self.mapping(node, "signing")? {
            match entry.key.as_str() {
                "format" => {
                    let choices = [("ssh", SigningFormat::Ssh), ("gpg", SigningFormat::Gpg)];
                    format = self.choice(&entry.value, "signing.format", &choices).unwrap_or(format);
                }
                // The repository says that commits are signed; which key of a machine does that, its operator says.
                "key" => {
                    let hint = "remove it and give Stepgate --signing-key FILE or gpg:ID (STEPGATE_SIGNING_KEY); a key itself is never in git";
                    let message =
                        "signing.key names a key of Stepgate's machine, and the repository does not choose that";
                    self.problem(entry.key_span, message, Some(hint.to_owned()));
                }
                _ => self.unknown(entry, "signing", &["format"]),
            }
        }
        Some(Signing { format })
    }

    /// Names of mirrors. Which folder of a machine has that name, its operator says.
    pub(in crate::document) fn mirrors(&mut self, node: &Node) -> Vec<String> {
        let mut names = Vec::new();
        for item in node.as_sequence().into_iter().flatten() {
            let Some(text) = self.text(item, "mirrors") else { continue };
            if is_mirror_name(&text) {
                names.push(text);
                continue;
            }
            let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
            let name = if is_mirror_name(&name) { name } else { "NAME".to_owned() };
            let hint = format!(
                "write {name} here and give Stepgate --mirror {name}={text} (STEPGATE_MIRROR); a folder given without a name needs no entry here"
            );
            let message = format!(
                "mirrors: {text:?} is not a valid name of a mirror, and the repository does not choose folders of Stepgate's machine"
            );
            self.problem(item.span, message, Some(hint));
        }
        if node.as_sequence().is_none() && !node.is_null() {
            self.problem(node.span, "mirrors must be a list", None);
        }
        names
    }

    pub(in crate::document) fn flux(&mut self, node: &Node, flux: &mut FluxPolicy) {
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
                        match field.key.as_str() {
                            "kind" => {
                                if let Some(kind) = self.choice(&field.value, "flux.source.kind", &SOURCES) {
                                    kind.clone_into(&mut flux.source.kind);
                                }
                            }
                            "name" => {
                                if let Some(name) = self.text(&field.value, "flux.source.name") {
                                    flux.source.name = name;
                                }
                            }
                            _ => self.unknown(field, "flux.source", &["kind", "name"]),
                        }
                    }
                }
                "decryption" => flux.decryption = self.decryption(&entry.value),
                _ => self.unknown(entry, "flux", &["namespace", "source", "interval", "decryption"]),
            }
        }
    }

    fn decryption(&mut self, node: &Node) -> Option<FluxDecryption> {
        let mut decryption = FluxDecryption::default();
        for entry in self.mapping(node, "flux.decryption")? {
            match entry.key.as_str() {
                "secret" => decryption.secret = self.text(&entry.value, "flux.decryption.secret"),
                "serviceAccount" => {
                    decryption.service_account = self.text(&entry.value, "flux.decryption.serviceAccount");
                }
                _ => self.unknown(entry, "flux.decryption", &["secret", "serviceAccount"]),
            }
        }
        Some(decryption)
    }

    pub(in crate::document) fn backup(&mut self, node: &Node, backup: &mut BackupPolicy) {
        for entry in self.mapping(node, "backup").into_iter().flatten() {
            match entry.key.as_str() {
                "maxAge" => {
                    let problem = "backup.maxAge is so short that no backup may count";
                    let hint = "a backup is looked at some minutes after it was taken";
                    backup.max_age = self.age(&entry.value, "backup.maxAge", problem, hint).unwrap_or(backup.max_age);
                }
                "keepFor" => {
                    let problem = "backup.keepFor is so short that no backup may stay";
                    let hint = "the backup of a rollout has to outlast its beginning";
                    backup.keep_for = self.age(&entry.value, "backup.keepFor", problem, hint);
                }
                "keep" => backup.keep = self.number(&entry.value, "backup.keep", 1, 1000).unwrap_or(backup.keep),
                _ => self.unknown(entry, "backup", &["maxAge", "keep", "keepFor"]),
            }
        }
    }

    /// The age of a backup, unless it is so short that it is a mistake.
    fn age(&mut self, value: &Node, field: &str, problem: &str, hint: &str) -> Option<Duration> {
        let age = self.duration(value, field)?;
        if age >= LEAST_AGE {
            return Some(age);
        }
        let hint = format!("{hint}: at least {}", format_duration(LEAST_AGE));
        self.problem(value.span, problem, Some(hint));
        None
    }

    pub(in crate::document) fn fetch(&mut self, node: &Node) -> Vec<String> {
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

/// Whether a text is the name of a mirror: small letters, digits and `-`, at most 63 of them. A path never is.
pub fn is_mirror_name(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inside) && !text.starts_with('-')
}
