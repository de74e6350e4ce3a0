//! What follows the numbers of a Kubernetes version: a pre-release, and the vendor's build.
//!
//! Vendors write the same build with other separators in other places: `v1.28.8+vmware.1-fips.1` on a Machine is
//! `v1.28.8---vmware.1-fips.1-tkg.2` as the name of a release, `v1.31.1+k0s.0` is `v1.31.1-k0s.0` in a tag. So a build is
//! read as words with numbers, whatever stands between them.

use std::cmp::Ordering;

use super::number;

/// Words that begin a pre-release of Kubernetes itself; every other word is a vendor's.
const PRERELEASES: [&str; 6] = ["alpha", "beta", "rc", "pre", "dev", "snapshot"];

/// The word with which the release of a distribution begins. What precedes it is the build of Kubernetes that machines and kubelets name.
const DISTRIBUTION: &str = "tkg";

/// Commit hashes have at least this many characters.
const SHORTEST_HASH: usize = 6;

/// A word and the numbers behind it: `vmware.3`, `eks-1-30-22`, `rke2r1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Part {
    name: String,
    numbers: Vec<u64>,
}

/// What follows the numbers of a Kubernetes version.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Build {
    prerelease: Vec<Part>,
    parts: Vec<Part>,
    /// Commit hashes and the like, which have no order.
    rest: Vec<String>,
}

impl Build {
    /// Reads what follows the numbers, separators included. Every text is something.
    pub(super) fn read(text: &str) -> Self {
        let mut build = Self::default();
        for token in text.split(['-', '+', '.', '_']).filter(|token| !token.is_empty()) {
            build.add(token);
        }
        build
    }

    fn add(&mut self, token: &str) {
        if let Some(number) = number(token) {
            let in_prerelease = self.parts.is_empty() && !self.prerelease.is_empty();
            let parts = if in_prerelease { &mut self.prerelease } else { &mut self.parts };
            match parts.last_mut() {
                Some(part) => part.numbers.push(number),
                // `v1.17.8-0`: a packaging revision without a word.
                None => parts.push(Part { name: String::new(), numbers: vec![number] }),
            }
            return;
        }
        if is_hash(token) {
            self.rest.push(token.to_owned());
            return;
        }
        let end = token.trim_end_matches(|last: char| last.is_ascii_digit()).len();
        let (name, digits) = token.split_at(end);
        let part = Part { name: name.to_owned(), numbers: number(digits).into_iter().collect() };
        if self.parts.is_empty() && PRERELEASES.contains(&name) {
            self.prerelease.push(part);
        } else {
            self.parts.push(part);
        }
    }

    /// Whether nothing follows the numbers.
    pub(super) fn is_none(&self) -> bool {
        self.parts.is_empty() && self.rest.is_empty()
    }

    fn kubernetes(&self) -> &[Part] {
        self.split().0
    }

    /// The parts of Kubernetes' own build, and those of the distribution's release.
    fn split(&self) -> (&[Part], &[Part]) {
        let at = self.parts.iter().position(|part| part.name == DISTRIBUTION).unwrap_or(self.parts.len());
        self.parts.split_at(at)
    }

    /// Whether `declared` is this build, as far as this one is written out. A Machine names no release of its distribution.
    pub(super) fn is_met_by_declared(&self, declared: &Self) -> bool {
        if self.prerelease != declared.prerelease {
            return false;
        }
        if self.is_none() {
            return true;
        }
        let ((kubernetes, distribution), (other, others)) = (self.split(), declared.split());
        let is_same_release = distribution.is_empty() || others.is_empty() || distribution == others;
        let is_same_rest =
            self.rest.is_empty() || others.is_empty() && !distribution.is_empty() || self.rest == declared.rest;
        kubernetes == other && is_same_release && is_same_rest
    }

    /// Whether a kubelet that reports this build may be of it. Kubelets name fewer numbers (`+k0s`), a commit in their place
    /// (`-eks-6f07bbc`), or nothing.
    pub(super) fn is_met_by_kubelet(&self, reported: &Self) -> bool {
        if self.prerelease != reported.prerelease {
            return false;
        }
        let (own, other) = (self.kubernetes(), reported.kubernetes());
        let fits = |(own, other): (&Part, &Part)| {
            own.name == other.name
                // A commit of seven digits is not a release of three numbers.
                && (own.numbers.len() != other.numbers.len() || own.numbers == other.numbers)
        };
        own.is_empty() || other.is_empty() || own.len() == other.len() && own.iter().zip(other).all(fits)
    }

    /// Whether both are one release of one distribution, or one of them does not say.
    pub(super) fn is_of_same_release(&self, other: &Self) -> bool {
        let (own, other) = (self.split().1, other.split().1);
        own.is_empty() || other.is_empty() || own == other
    }

    /// The order of two builds of the same numbers: pre-releases before releases, then the numbers of the same words. Builds of two
    /// vendors have no order, nor has what is not a number.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let prerelease = match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (true, true) | (false, false) => self.prerelease.cmp(&other.prerelease),
        };
        let mut order = prerelease;
        for (own, other) in self.parts.iter().zip(&other.parts) {
            if order.is_ne() || own.name != other.name {
                break;
            }
            if !own.numbers.is_empty() && !other.numbers.is_empty() {
                order = own.numbers.cmp(&other.numbers);
            }
        }
        order
    }
}

/// Whether it is a commit: hexadecimal with a digit in it, or a mixture that begins with one.
fn is_hash(token: &str) -> bool {
    let has_digit = token.bytes().any(|byte| byte.is_ascii_digit());
    let is_hexadecimal = token.len() >= SHORTEST_HASH && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hexadecimal && (has_digit || token.len() > SHORTEST_HASH)
        || token.starts_with(|first: char| first.is_ascii_digit())
}
