//! Addresses of remote bases: which part is the repository, which the path in it, and what the query asks for.

use std::time::Duration;

/// A git repository and a directory in it, as a kustomization names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRepository {
    /// What git is given: `https://host/org/repository`, `ssh://…`, `git@host:path`, `file://…`.
    pub address: String,
    /// The directory of the kustomization in the repository; empty for its root.
    pub path: String,
    /// `?ref=` or `?version=`: a branch, tag or commit; none for what the remote's HEAD names.
    pub reference: Option<String>,
    /// `?timeout=`, 27 seconds unless given: for each git command.
    pub timeout: Duration,
    /// `?submodules=`, true unless given.
    pub submodules: bool,
}

const TIMEOUT: Duration = Duration::from_secs(27);
const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];

impl RemoteRepository {
    /// Reads an address as kustomize does; none where it is not an address of a repository.
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with('/') {
            return None;
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (host, rest) = split_host(address)?;
        let (repository, path) = split_path(&rest, host == "file://")?;
        let path = path.trim_start_matches('/');
        // An option of git or ssh is not an address.
        let name = host.rsplit(['/', '@']).find(|part| !part.is_empty()).unwrap_or_default();
        let is_option = host.starts_with('-') || name.starts_with('-') || repository.starts_with('-');
        let leaves = crate::fs::join("", path).is_none();
        if repository.is_empty() || leaves || is_option || text.contains(char::is_control) {
            return None;
        }
        let mut parsed = Self {
            address: format!("{host}{repository}"),
            path: path.to_owned(),
            reference: None,
            timeout: TIMEOUT,
            submodules: true,
        };
        parsed.read_query(query);
        Some(parsed)
    }

    fn read_query(&mut self, query: &str) {
        let value = |name: &str| {
            let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs.into_iter().find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| unescaped(value))
        };
        self.reference = value("ref").or_else(|| value("version"));
        if let Some(timeout) = value("timeout").and_then(|text| duration(&text)) {
            self.timeout = timeout;
        }
        if let Some(submodules) = value("submodules") {
            match submodules.as_str() {
                "0" | "f" | "F" | "false" | "False" | "FALSE" => self.submodules = false,
                // Words that are no truth value are passed over, as kustomize does.
                _ => {}
            }
        }
    }
}

/// Scheme, user and host with the sign that ends them, and what follows.
fn split_host(address: &str) -> Option<(String, String)> {
    let address = strip_ignoring_case(address, "git::").unwrap_or(address);
    let (scheme, rest) = SCHEMES
        .iter()
        .find_map(|scheme| strip_ignoring_case(address, scheme).map(|rest| (*scheme, rest)))
        .unwrap_or(("", address));
    if scheme == "file://" {
        return Some((scheme.to_owned(), rest.to_owned()));
    }
    let (user, rest) = match rest.split_once('@') {
        Some((user, after)) if is_user(user) => (format!("{user}@"), after),
        _ => (String::new(), rest),
    };
    let lower = rest.to_ascii_lowercase();
    let github = lower.starts_with("github.com/") || lower.starts_with("github.com:");
    let has_colon_form = scheme.is_empty() && (!user.is_empty() || github);
    if scheme.is_empty() && !has_colon_form {
        return None;
    }
    let slash = rest.find('/');
    let colon = rest.find(':').filter(|colon| has_colon_form && *colon > 0);
    let end = match (slash, colon) {
        (Some(slash), Some(colon)) => colon.min(slash),
        (slash, colon) => slash.or(colon)?,
    };
    let (host, rest) = rest.split_at_checked(end + 1)?;
    if github {
        let by_ssh = scheme == "ssh://" || !user.is_empty();
        let host = if by_ssh { format!("{user}github.com:") } else { "https://github.com/".to_owned() };
        return Some((host, rest.to_owned()));
    }
    Some((format!("{scheme}{user}{host}"), rest.to_owned()))
}

fn is_user(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '-')
}

fn strip_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Repository and path: divided by a mark, or after two segments.
fn split_path(text: &str, whole: bool) -> Option<(String, String)> {
    let parts = |end: usize, skip: usize| {
        let (repository, path) = text.split_at_checked(end)?;
        Some((repository.to_owned(), path.get(skip..)?.to_owned()))
    };
    if let Some(mark) = text.find("_git/") {
        let begin = mark + "_git/".len();
        let end = text.get(begin..)?.find('/').map_or(text.len(), |slash| begin + slash);
        return parts(end, 0);
    }
    if let Some(mark) = text.find("//") {
        return parts(mark, 2);
    }
    if let Some(mark) = text.find(".git") {
        return parts(mark + ".git".len(), 0);
    }
    if whole {
        return Some((text.to_owned(), String::new()));
    }
    let mut slashes = text.match_indices('/').map(|(at, _)| at);
    slashes.next()?;
    parts(slashes.next().unwrap_or(text.len()), 0)
}

/// `%2F` is `/`, `+` is a space.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high).unwrap_or_default() << 4 | hex(*low).unwrap_or_default());
                rest = after;
            }
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Seconds, or a duration of Go in seconds, minutes and hours: `61`, `61s`, `1m30s`.
fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u32>() {
        return (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(digits)?;
        let number = u64::from(number.parse::<u32>().ok()?);
        let units = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(units)?;
        total = total.checked_add(match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number * 60),
            "h" => Duration::from_secs(number * 3600),
            _ => return None,
        })?;
        rest = next;
    }
    (!total.is_zero()).then_some(total)
}

/// Says whether an address can only be that of a repository.
pub(crate) fn names_a_repository(path: &str) -> bool {
    let after_scheme = path.split_once("://").map_or(path, |(_, rest)| rest);
    !(path.starts_with("http://") || path.starts_with("https://"))
        || after_scheme.contains("//")
        || [".git/", "_git/", "?ref=", "&ref=", "?version=", "?submodules=", "?timeout="]
            .iter()
            .any(|mark| path.contains(mark))
        || path.ends_with(".git")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_divided_into_repository_path_and_reference() {
        let check = |text: &str, expected: Option<(&str, &str, Option<&str>)>| {
            let found = RemoteRepository::parse(text);
            let found = found.as_ref().map(|it| (it.address.as_str(), it.path.as_str(), it.reference.as_deref()));
            assert_eq!(found, expected, "{text}");
        };
        let https = "https://github.com/org/repository";
        check("https://github.com/org/repository", Some((https, "", None)));
        check("github.com/org/repository/a/b?ref=v1", Some((https, "a/b", Some("v1"))));
        check("GitHub.com/org/repository//a", Some((https, "a", None)));
        check("https://user@github.com/org/repository", Some(("user@github.com:org/repository", "", None)));
        check(
            "git@github.com:org/repository.git/a",
            Some(("git@github.com:org/repository.git", "/a".trim_start_matches('/'), None)),
        );
        check("git::https://example.com/a/b/c?version=x", Some(("https://example.com/a/b", "c", Some("x"))));
        check(
            "https://example.com/a/b/c.git/d?ref=feature%2Fx&timeout=3",
            Some(("https://example.com/a/b/c.git", "d", Some("feature/x"))),
        );
        check("https://dev.azure.com/o/p/_git/r/a/b", Some(("https://dev.azure.com/o/p/_git/r", "a/b", None)));
        check("ssh://git@example.com:22/a/b//c", Some(("ssh://git@example.com:22/a/b", "c", None)));
        check("file:///srv/repository//a?ref=main", Some(("file:///srv/repository", "a", Some("main"))));
        check("file:///srv/repository", Some(("file:///srv/repository", "", None)));
        for text in [
            "base",
            "../base",
            "/srv/base",
            "a/b.git",
            "https://example.com",
            "https://example.com/a",
            "https://example.com/a/b//../../c",
            "ssh://-oProxyCommand=x/a/b",
            "ssh://git@-oProxyCommand=x/a/b",
            "git@-oProxyCommand=x:a/b",
            "https://example.com/a/b\n",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_query_says_how_long_and_whether_submodules() {
        let check = |query: &str, seconds: f64, submodules: bool| {
            let found = RemoteRepository::parse(&format!("https://example.com/a/b?{query}")).unwrap();
            assert_eq!((found.timeout.as_secs_f64(), found.submodules), (seconds, submodules), "{query}");
        };
        check("", 27.0, true);
        check("timeout=61&submodules=false", 61.0, false);
        check("timeout=1m30s&submodules=true", 90.0, true);
        check("timeout=500ms&submodules=maybe", 0.5, true);
        check("timeout=-1s&submodules=0", 27.0, false);
        check("timeout=0&submodules=", 27.0, true);
    }
}
