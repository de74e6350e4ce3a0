//! What is read of a commit object.

use git2::Oid;

use super::trailer::StageTrailers;

/// What is read of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitFields {
    pub(crate) tree: Oid,
    pub(crate) parents: Vec<Oid>,
    pub(crate) author: String,
    /// Seconds since 1970 of the committer.
    pub(crate) committed_at: i64,
    pub(crate) message: String,
    /// Which stage it says that it is, for each cluster: read once, since every cluster's history asks.
    pub(crate) stages: Vec<StageTrailers>,
    /// Whether these are all clusters that it changes: it is ours as we made it. Whoever squashes commits of ours into one, or writes a message
    /// anew, is another committer, or begins it otherwise, or keeps trailers of several in it.
    pub(crate) names_all: bool,
    /// Whether it has a message that is too long to be read.
    pub(crate) is_cut: bool,
}

impl CommitFields {
    /// Reads the beginning of a commit object that is too large to be read: its message counts as empty. `None` when its header is
    /// malformed, or not all of it is there.
    pub(crate) fn parse_beginning(data: &[u8]) -> Option<Self> {
        let end = data.windows(2).position(|pair| pair == b"\n\n")?;
        Some(Self { is_cut: true, ..Self::parse(data.get(..end)?)? })
    }

    /// Reads a commit object. `None` when it is malformed.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let split = data.windows(2).position(|pair| pair == b"\n\n");
        let (header, message) = match split {
            Some(at) => (data.get(..at)?, data.get(at + 2..)?),
            None => (data, &b""[..]),
        };
        let (mut tree, mut parents, mut author, mut committed_at) = (None, Vec::new(), None, None);
        let (mut written, mut committed) = (None, None);
        for line in header.split(|byte| *byte == b'\n') {
            let id = |rest: &[u8]| Oid::from_str(std::str::from_utf8(rest).ok()?).ok();
            if let Some(rest) = line.strip_prefix(b"tree ") {
                tree = tree.or(Some(id(rest)?));
            } else if let Some(rest) = line.strip_prefix(b"parent ") {
                parents.push(id(rest)?);
            } else if let Some(rest) = line.strip_prefix(b"author ") {
                written = written.or(Some(rest));
                author = author.or_else(|| Some(person(&String::from_utf8_lossy(rest)).0));
            } else if let Some(rest) = line.strip_prefix(b"committer ") {
                committed = committed.or(Some(rest));
                committed_at = committed_at.or_else(|| person(&String::from_utf8_lossy(rest)).1);
            }
        }
        let message = String::from_utf8_lossy(message).into_owned();
        let stages = StageTrailers::parse_all(&message);
        Some(Self {
            tree: tree?,
            parents,
            author: author?,
            committed_at: committed_at?,
            names_all: written == committed && StageTrailers::are_all(&stages, &message),
            stages,
            message,
            is_cut: false,
        })
    }
}

/// `Name <address> 1700000000 +0000` as (`Name <address>`, seconds).
fn person(text: &str) -> (String, Option<i64>) {
    match text.rsplit_once('>') {
        Some((who, rest)) => {
            (format!("{who}>"), rest.split_whitespace().next().and_then(|seconds| seconds.parse().ok()))
        }
        None => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_headers_survive_signatures_and_odd_people() {
        let id = "1".repeat(40);
        let text = format!(
            "tree {id}\nparent {id}\nauthor A > B <a@b> 5 +0000\ncommitter C <c@d> 7 -0130\ngpgsig -----BEGIN\n tree x\n -----END\n\nsubject\n\nbody\n"
        );
        let fields = CommitFields::parse(text.as_bytes()).unwrap();
        assert_eq!((fields.author.as_str(), fields.committed_at), ("A > B <a@b>", 7));
        assert_eq!((fields.parents.len(), fields.message.as_str()), (1, "subject\n\nbody\n"));
        assert!(!fields.names_all);
        for bad in ["", "tree x\n\n", "parent 1\n"] {
            assert!(CommitFields::parse(bad.as_bytes()).is_none());
        }
    }
}
