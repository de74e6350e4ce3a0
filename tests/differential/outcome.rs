//! What came of a case on one side, and whether the two sides agree.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kustomize_rs::{ChartRenderer, Options, Order, Outside, build_with};

use crate::case::Case;
use crate::peer::Peer;

/// What one side made of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The printed text, and the lines on the standard error.
    Built {
        /// All documents.
        text: String,
        /// Lines on the standard error.
        warnings: Vec<String>,
    },
    /// The message of a refusal.
    Refused(String),
    /// A crash.
    Broken(String),
}

/// How two outcomes compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both built the same bytes.
    Same,
    /// Both refused.
    BothRefused,
    /// The case says nothing about us, for this reason.
    Excluded(&'static str),
    /// They differ in this way.
    Different(&'static str),
}

/// Builds a case on our side, charts by `charts`.
pub fn ours(case: &Case, charts: &dyn ChartRenderer) -> Outcome {
    let order = if case.unsorted { Order::None } else { Order::Legacy };
    let mut options = Options { order, ..Options::default() };
    if case.charts {
        // The program knows its version, the library does not.
        options.version = "v5.8.1".to_owned();
    }
    let tree = case.tree();
    let outside = Outside { charts: case.charts.then_some(charts), remotes: None };
    let built = catch_unwind(AssertUnwindSafe(|| build_with(&tree, &case.directory, &options, outside)));
    match built {
        Ok(Ok(resources)) => {
            // kustomize says nothing about those.
            let is_own = |line: &&String| line.ends_with("` is given again below, this one is lost.");
            let warnings = resources.warnings().iter().filter(|line| !is_own(line)).cloned().collect();
            Outcome::Built { text: resources.to_yaml(), warnings }
        }
        Ok(Err(error)) => Outcome::Refused(error.to_string()),
        Err(_) => Outcome::Broken("a panic".to_owned()),
    }
}

/// Errors that kustomize makes on its own way, not about the input.
const INTERNAL: [(&str, &str); 3] = [
    ("map[string]interface {}{", "kustomize cannot read what it has written itself"),
    (
        "unsupported type: map[interface {}]interface {}",
        "kustomize drops the quotes of a key that reads as a number or boolean",
    ),
    (
        "number of previous names, number of previous",
        "kustomize keeps names it had in a list with commas, and this one has a comma",
    ),
];

/// Compares; asks the peer again where Go's order of maps could be to blame.
pub fn compare(case: &Case, ours: &Outcome, theirs: &Outcome, peer: &mut Peer) -> anyhow::Result<Verdict> {
    let verdict = judge(ours, theirs);
    if !matches!(verdict, Verdict::Different(_)) {
        return Ok(verdict);
    }
    for _ in 0..8 {
        let again = peer.build(case)?;
        let same = match (&again, theirs) {
            (Outcome::Refused(_), Outcome::Refused(_)) => true,
            (again, theirs) => again == theirs,
        };
        if !same {
            return Ok(Verdict::Excluded("kustomize's own output varies from run to run"));
        }
    }
    Ok(verdict)
}

fn judge(ours: &Outcome, theirs: &Outcome) -> Verdict {
    match (ours, theirs) {
        (Outcome::Broken(_), _) => Verdict::Different("ours panics"),
        (_, Outcome::Broken(_)) => Verdict::Excluded("kustomize panics"),
        (Outcome::Refused(_), Outcome::Refused(_)) => Verdict::BothRefused,
        (_, Outcome::Built { text, .. }) if text.contains("internal.config.kubernetes.io") => {
            Verdict::Excluded("kustomize shows its own annotations")
        }
        (Outcome::Built { text: a, warnings: w }, Outcome::Built { text: b, warnings: v }) => match (a == b, w == v) {
            (true, true) => Verdict::Same,
            (true, false) => Verdict::Different("warnings"),
            _ => Verdict::Different("output"),
        },
        (Outcome::Built { .. }, Outcome::Refused(error)) => INTERNAL
            .iter()
            .find(|(text, _)| error.contains(text))
            .map_or(Verdict::Different("only kustomize refuses"), |(_, reason)| Verdict::Excluded(reason)),
        (Outcome::Refused(error), Outcome::Built { .. }) if error.contains("is not defined here") => {
            Verdict::Excluded("kustomize puts its own annotations into the hash of such a kind")
        }
        (Outcome::Refused(_), Outcome::Built { .. }) => Verdict::Different("only ours refuses"),
    }
}
