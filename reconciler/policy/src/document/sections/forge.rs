//! The forge of `stepgate.yaml`: where people see what is proposed as pull requests.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;
use yaml::Node;

use crate::document::read::Reader;
use crate::document::schema::ForgeText;

/// Which interface a forge speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ForgeKind {
    /// Gitea, and Forgejo, which speaks the same.
    Gitea,
    /// GitHub, or an own GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
}

impl ForgeKind {
    const CHOICES: [(&'static str, Self); 4] =
        [("gitea", Self::Gitea), ("forgejo", Self::Gitea), ("github", Self::GitHub), ("gitlab", Self::GitLab)];
}

/// Where pull requests are opened. It names no secret: whoever runs Stepgate gives it the token, and says which hosts may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ForgePolicy {
    /// Which interface it speaks.
    #[schemars(with = "ForgeText")]
    pub kind: ForgeKind,
    /// Its web address, without a slash at the end: `https://`, or `http://` to this very machine.
    pub url: String,
    /// The fleet repository there, `owner/name`; on GitLab `group/subgroup/name` too.
    pub repository: String,
}

impl Reader<'_> {
    pub(in crate::document) fn forge(&mut self, node: &Node) -> Option<ForgePolicy> {
        let (mut kind, mut url, mut repository) = (None, None, None);
        for entry in self.mapping(node, "forge")? {
            let value = &entry.value;
            match entry.key.as_str() {
                "kind" => kind = self.choice(value, "forge.kind", &ForgeKind::CHOICES),
                "url" => {
                    url = self.text(value, "forge.url").map(|text| text.trim_end_matches('/').to_owned());
                    if let Some(reason) = url.as_deref().and_then(bad_url) {
                        self.problem(value.span, format!("forge.url {reason}"), None);
                        url = None;
                    }
                }
                "repository" => {
                    repository = self.text(value, "forge.repository").map(|text| (text, value.span));
                }
                "token" | "tokenFile" => {
                    let hint = "give its file to whoever runs Stepgate: --forge-token-file".to_owned();
                    self.problem(entry.key_span, "the token of a forge has no place in git", Some(hint));
                }
                _ => self.unknown(entry, "forge", &["kind", "url", "repository"]),
            }
        }
        let missing = [("kind", kind.is_none()), ("url", url.is_none()), ("repository", repository.is_none())];
        for (name, _) in missing.iter().filter(|(name, missing)| *missing && !has(node, name)) {
            self.problem(node.span, format!("forge needs {name}"), None);
        }
        let (kind, (repository, span)) = (kind?, repository?);
        if !is_repository(&repository, kind) {
            let hint = "such as platform/fleet".to_owned();
            self.problem(span, "forge.repository must be owner/name", Some(hint));
            return None;
        }
        Some(ForgePolicy { kind, url: url?, repository })
    }
}

fn has(node: &Node, key: &str) -> bool {
    node.as_mapping().is_some_and(|mapping| mapping.get(key).is_some())
}

/// What is wrong with an address that a token is to be sent to.
fn bad_url(url: &str) -> Option<&'static str> {
    if url.chars().any(|c| c.is_control() || c.is_whitespace() || "?#@\\%".contains(c)) {
        return Some("must hold no user, query, fragment, blank or percent sign");
    }
    let Some((scheme, rest)) = url.split_once("://") else { return Some("must begin with https://") };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match scheme {
        _ if host.is_empty() => Some("must name a host"),
        "https" => None,
        "http" if loopback => None,
        "http" => Some("must begin with https://: a token is sent there"),
        _ => Some("must begin with https://"),
    }
}

fn is_repository(name: &str, kind: ForgeKind) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && part.chars().all(plain) && part.chars().any(|c| c != '.')
    };
    let parts: Vec<&str> = name.split('/').collect();
    // Groups of GitLab lie in groups.
    let depth = if kind == ForgeKind::GitLab { 2..=20 } else { 2..=2 };
    depth.contains(&parts.len()) && parts.into_iter().all(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_policy;
    use domain::RepoPath;

    fn read(text: &str) -> (Option<ForgePolicy>, Vec<String>) {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        (policy.forge, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_forge_is_read_whole() {
        for url in [
            "https://git.example.com",
            "https://git.example.com:8443/gitea/",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
        ] {
            let (forge, problems) = read(&format!("forge: {{kind: gitea, url: '{url}', repository: platform/fleet}}"));
            assert!(problems.is_empty(), "{problems:?}");
            assert_eq!(forge.unwrap().url, url.trim_end_matches('/'));
        }
    }

    #[test]
    fn what_could_lead_a_token_astray_is_refused() {
        for (text, wanted) in [
            ("kind: gitea, url: 'http://git.example.com', repository: a/b", "a token is sent there"),
            ("kind: gitea, url: 'http://127.0.0.1.example.com', repository: a/b", "a token is sent there"),
            ("kind: gitea, url: 'https://user:x@git.example.com', repository: a/b", "no user"),
            ("kind: gitea, url: git.example.com, repository: a/b", "must begin with https://"),
            ("kind: gitea, url: 'https:///x', repository: a/b", "must name a host"),
            ("kind: gitea, url: 'https://h', repository: a/../b", "must be owner/name"),
            ("kind: gitea, url: 'https://h', repository: a/..", "must be owner/name"),
            ("repository: a/b/c, kind: github, url: 'https://h'", "must be owner/name"),
            ("kind: gitlab, url: 'https://h', repository: a/b/../c", "must be owner/name"),
            ("kind: gitea, url: 'https://h'", "forge needs repository"),
            ("kind: bitbucket, url: 'https://h', repository: a/b", "forge.kind must be one of"),
            ("kind: gitea, url: 'https://h', repository: a/b, token: x", "has no place in git"),
            ("kind: gitea, url: 'https://h', repository: a/b, branch: x", "unknown field \"branch\""),
        ] {
            let (_, problems) = read(&format!("forge: {{{text}}}"));
            assert!(problems.iter().any(|problem| problem.contains(wanted)), "{text}: {problems:?}");
        }
    }
}
