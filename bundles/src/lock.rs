//! `bundles.lock`: the SHA-256 of every manifest and chart that a bundle points to.
//!
//! Bundles give no digest for a manifest, only its address; the lock is what makes an address mean one content. One
//! line for each manifest, `sha256:<64 digits>  <address>`, sorted by address. Blank lines and lines that start with
//! `#` say nothing.

use std::collections::BTreeMap;

use crate::digest::Digest;

/// The content of a `bundles.lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    digests: BTreeMap<String, Digest>,
}

/// What is wrong with a `bundles.lock`, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {message}; {hint}")]
pub struct LockError {
    /// The path that was given to [`Lock::parse`].
    pub path: String,
    /// 1-based.
    pub line: usize,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}

const HEADER: &str = "# SHA-256 of every manifest that the bundles point to. Written by `stepgate bundle fetch`.\n";
const FORM: &str =
    "write `sha256:<64 hexadecimal digits>  <address>`, or run `stepgate bundle fetch` to write the lock anew";

impl Lock {
    /// Reads a lock; `path` is for error messages only.
    ///
    /// # Errors
    /// A line of another form, an address with two digests, text that is not UTF-8.
    pub fn parse(path: &str, text: &[u8]) -> Result<Self, LockError> {
        let error = |line: usize, message: String, hint| LockError { path: path.to_owned(), line, message, hint };
        let text = std::str::from_utf8(text).map_err(|utf8| {
            let valid = text.get(..utf8.valid_up_to()).unwrap_or_default();
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            error(line, "the lock is not UTF-8 text".to_owned(), "run `stepgate bundle fetch` to write the lock anew")
        })?;
        let mut lock = Self::default();
        for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let number = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((digest, uri)) = line.split_once(char::is_whitespace) else {
                return Err(error(number, format!("`{line}` has no address behind its digest"), FORM));
            };
            let digest: Digest = digest.parse().map_err(|cause| error(number, format!("{cause}"), FORM))?;
            let uri = uri.trim_start();
            if uri.contains(char::is_whitespace) {
                return Err(error(number, format!("the address `{uri}` holds a blank"), FORM));
            }
            if lock.insert(uri, digest).is_some_and(|before| before != digest) {
                let message = format!("`{uri}` has a second, different digest");
                return Err(error(number, message, "keep the line that is right; a merge may have kept both"));
            }
        }
        Ok(lock)
    }

    /// The text of the lock: the same entries always give the same bytes.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.digests.iter().fold(HEADER.to_owned(), |mut text, (uri, digest)| {
            text.push_str(&format!("{digest}  {uri}\n"));
            text
        })
    }

    /// The digest of the manifest at `uri`.
    #[must_use]
    pub fn get(&self, uri: &str) -> Option<Digest> {
        self.digests.get(uri).copied()
    }

    /// Locks `uri` to `digest`; returns what it was locked to before.
    pub fn insert(&mut self, uri: impl Into<String>, digest: Digest) -> Option<Digest> {
        self.digests.insert(uri.into(), digest)
    }

    /// Address and digest of every entry, by address.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Digest)> {
        self.digests.iter().map(|(uri, digest)| (uri.as_str(), *digest))
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const B: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn text_is_sorted_and_round_trips() {
        let mut lock = Lock::default();
        lock.insert("https://example.org/b.yaml", Digest::of(b"b"));
        lock.insert("https://example.org/a.yaml", Digest::of(b""));
        let text = lock.to_text();
        let addresses: Vec<_> =
            text.lines().skip(1).filter_map(|line| line.split_once("  ")).map(|(_, uri)| uri).collect();
        assert_eq!(addresses, ["https://example.org/a.yaml", "https://example.org/b.yaml"]);
        assert_eq!(Lock::parse("bundles.lock", text.as_bytes()), Ok(lock));
    }

    #[test]
    fn loose_forms_are_read() {
        let check = |text: &str| {
            let lock = Lock::parse("bundles.lock", text.as_bytes()).unwrap();
            assert_eq!(lock.iter().collect::<Vec<_>>(), [("https://a", Digest::of(b""))], "{text:?}");
        };
        check(&format!("sha256:{A}  https://a"));
        check(&format!("{A} https://a\r\n\r\n# a remark\r\n"));
        check(&format!("\u{feff}sha256:{A}\thttps://a\nsha256:{A}  https://a\n"));
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &[u8], line: usize, part: &str| {
            let error = Lock::parse("bundles.lock", text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        check(format!("# x\nsha256:{A}\n").as_bytes(), 2, "no address");
        check(b"sha256:00  https://a", 1, "no SHA-256 digest");
        check(format!("{A}  https://a\n{B}  https://a\n").as_bytes(), 2, "second, different digest");
        check(format!("{A}  https://a b").as_bytes(), 1, "holds a blank");
        check(b"\n\xff", 2, "not UTF-8");
    }
}
