//! What is remembered counts with no less than the memory that it takes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code)]
#[path = "../rollout/tests/gates/healthy.rs"]
mod healthy;

use host::memory::bytes_of;
use rollout::Observation;

/// So many are kept at once, that what else the process does makes no difference.
const COPIES: usize = 4000;

/// The memory that this process takes, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

// The only test of its process, since it measures what all of it takes.
#[test]
fn readings_count_with_at_least_what_they_take() {
    let reading = healthy::healthy();
    let text = serde_json::to_string(&reading).unwrap();
    // With parsed copies, nothing is shared.
    let copy = || serde_json::from_str::<Observation>(&text).unwrap();
    let counted = bytes_of(&reading);
    let before = resident();
    let kept: Vec<Observation> = (0..COPIES).map(|_| copy()).collect();
    let took = (resident().saturating_sub(before)) / kept.len();
    assert!(took > 2000, "{took} bytes each: nothing was measured");
    assert!(counted >= took, "{counted} bytes are counted for a reading that takes {took}");
    assert!(counted < 4 * took, "{counted} bytes are counted for a reading that takes {took}");
}
