//! Names of node groups that carry a version: `ng-shared-1-31`, `ng-shared-1-31-gen2`.
//!
//! EKS gives a node group the version that its cluster has when it is made, and eksctl never changes one that is there. So a
//! group goes to another version, or to another specification, by another one under another name.

use std::fmt;

/// The name of a node group with the version that it carries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionedName {
    /// What all groups have in common that replace each other.
    pub stem: String,
    /// Minor of Kubernetes 1.
    pub minor: u32,
    /// Which one of that version it is, from 1.
    pub generation: u32,
    /// How the generation is written where it is not the first: `gen` or `v`.
    mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Generation,
    Version,
}

impl Mark {
    fn text(self) -> &'static str {
        match self {
            Self::Generation => "gen",
            Self::Version => "v",
        }
    }
}

/// What a name says of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeGroupName {
    /// It carries one.
    Versioned(VersionedName),
    /// Nothing tells of one.
    Unversioned,
}

impl NodeGroupName {
    /// Reads a name: stem, major, minor, and which one it is where that is not the first.
    #[must_use]
    pub fn of(name: &str) -> Self {
        versioned(name).map_or(Self::Unversioned, Self::Versioned)
    }
}

fn versioned(name: &str) -> Option<VersionedName> {
    let (rest, mark, generation) = generation(name).unwrap_or((name, Mark::Generation, 1));
    let (rest, minor) = rest.rsplit_once('-')?;
    let (stem, major) = rest.rsplit_once('-')?;
    let minor = number(minor).filter(|minor| (10..100).contains(minor))?;
    (major == "1" && !stem.is_empty()).then(|| VersionedName { stem: stem.to_owned(), minor, generation, mark })
}

fn generation(name: &str) -> Option<(&str, Mark, u32)> {
    let (rest, last) = name.rsplit_once('-')?;
    let of = |mark: Mark| Some((rest, mark, number(last.strip_prefix(mark.text())?).filter(|number| *number > 0)?));
    of(Mark::Generation).or_else(|| of(Mark::Version))
}

fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

impl VersionedName {
    /// The first of this stem at a version.
    #[must_use]
    pub fn first(stem: &str, minor: u32) -> Self {
        Self { stem: stem.to_owned(), minor, generation: 1, mark: Mark::Generation }
    }

    /// The next one of the same version.
    #[must_use]
    pub fn rebuilt(&self) -> Self {
        Self { generation: self.generation.saturating_add(1), ..self.clone() }
    }

    /// The version, as `1.31`.
    #[must_use]
    pub fn version(&self) -> String {
        format!("1.{}", self.minor)
    }
}

impl fmt::Display for VersionedName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-1-{}", self.stem, self.minor)?;
        if self.generation > 1 {
            write!(formatter, "-{}{}", self.mark.text(), self.generation)?;
        }
        Ok(())
    }
}

/// The minor of a version of EKS, which is written as `1.31` and in no other way.
#[must_use]
pub fn minor_of(version: &str) -> Option<u32> {
    let (major, minor) = version.split_once('.')?;
    number(minor).filter(|_| major == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stem_version_and_generation() {
        for (name, expected) in [
            ("ng-shared-1-21", Some(("ng-shared", 21, 1))),
            ("ng-shared-1-24-gen2", Some(("ng-shared", 24, 2))),
            ("a-1-31-v3", Some(("a", 31, 3))),
            ("ng-10-1-31", Some(("ng-10", 31, 1))),
            ("steady", None),
            ("m5-large-2", None),
            ("ng-2-31", None),
            ("worker-1-2", None),
            ("1-31", None),
            ("-1-31", None),
            ("ng-1-31-blue", None),
            ("ng-1-31-gen0", None),
            ("ng-1-031", None),
        ] {
            let found = match NodeGroupName::of(name) {
                NodeGroupName::Versioned(found) => {
                    assert_eq!(found.to_string(), name);
                    Some((found.stem.clone(), found.minor, found.generation))
                }
                NodeGroupName::Unversioned => None,
            };
            let expected = expected.map(|(stem, minor, generation)| (stem.to_owned(), minor, generation));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_new_version_drops_the_generation_and_a_rebuild_raises_it() {
        let NodeGroupName::Versioned(name) = NodeGroupName::of("ng-1-24-gen2") else { panic!() };
        assert_eq!(VersionedName::first(&name.stem, 25).to_string(), "ng-1-25");
        assert_eq!(name.rebuilt().to_string(), "ng-1-24-gen3");
        assert_eq!(VersionedName::first("ng", 24).rebuilt().to_string(), "ng-1-24-gen2");
    }
}
