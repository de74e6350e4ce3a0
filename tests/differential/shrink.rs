//! Making a case that differs smaller, as long as it still differs in the same way.

use crate::case::Case;
use crate::outcome::{Verdict, compare, ours};
use crate::peer::Peer;

/// Drops files, then blocks of lines, until nothing can go.
pub fn shrink(case: &Case, kind: &Verdict, peer: &mut Peer) -> anyhow::Result<Case> {
    let mut best = case.clone();
    loop {
        let before = best.clone();
        for name in before.files.keys() {
            let mut candidate = best.clone();
            candidate.files.remove(name);
            if differs(&candidate, kind, peer)? {
                best = candidate;
            }
        }
        for name in before.binaries.keys() {
            let mut candidate = best.clone();
            candidate.binaries.remove(name);
            if differs(&candidate, kind, peer)? {
                best = candidate;
            }
        }
        for name in before.files.keys() {
            let mut at = 0;
            while let Some(content) = best.files.get(name) {
                let lines: Vec<&str> = content.split_inclusive('\n').collect();
                if at >= lines.len() {
                    break;
                }
                let mut shrunk = false;
                if is_identity(lines[at]) {
                    at += 1;
                    continue;
                }
                for end in [block_end(&lines, at), at + 1] {
                    let mut candidate = best.clone();
                    let text: String = [&lines[..at], &lines[end..]].concat().concat();
                    candidate.files.insert(name.clone(), text);
                    if differs(&candidate, kind, peer)? {
                        best = candidate;
                        shrunk = true;
                        break;
                    }
                }
                if !shrunk {
                    at += 1;
                }
            }
        }
        if best == before {
            return Ok(best);
        }
    }
}

/// Without these an object is not an object, and every case would shrink to how that is refused.
fn is_identity(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '-', '"', '\'']);
    ["apiVersion", "kind", "name", "metadata", "value:"].iter().any(|key| line.starts_with(key))
}

fn differs(case: &Case, kind: &Verdict, peer: &mut Peer) -> anyhow::Result<bool> {
    let theirs = peer.build(case)?;
    Ok(compare(case, &ours(case, peer.charts()), &theirs, peer)? == *kind)
}

/// The line after the block that starts at `at`: all that follows with more indentation.
fn block_end(lines: &[&str], at: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(lines[at]);
    let below = |line: &&&str| line.trim().is_empty() || indent(line) > own;
    at + 1 + lines[at + 1..].iter().take_while(below).count()
}
