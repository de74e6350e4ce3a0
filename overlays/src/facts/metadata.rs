//! clusterctl's `metadata.yaml`.

use yaml::{Limits, Node};

/// The contracts of providers that a core of this contract works with (`cluster-api`, `internal/contract`). One whose
/// contract is not known is taken for the newest.
pub fn accepted_contracts(core: Option<&str>) -> &'static [&'static str] {
    match core {
        Some("v1beta1") => &["v1beta1"],
        Some(_) | None => &["v1beta1", "v1beta2"],
    }
}

/// The contract that a `metadata.yaml` declares for `version`: that of its series `major.minor`. Some have no `kind`; it
/// is clusterctl Metadata all the same.
pub fn declared_contract(metadata: &str, version: &str) -> Option<String> {
    let documents = yaml::parse(metadata, &Limits::default()).ok()?;
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']);
    let (major, minor) = (numbers.next()?.parse::<i64>().ok()?, numbers.next()?.parse::<i64>().ok()?);
    let series = documents.first()?.root.get("releaseSeries")?.as_sequence()?;
    let number = |node: &Node, key: &str| node.get(key).and_then(Node::as_i64);
    series
        .iter()
        .find(|series| number(series, "major") == Some(major) && number(series, "minor") == Some(minor))
        .and_then(|series| series.get("contract")?.as_str().map(str::to_owned))
}
