//! Clusters, their stages, and the machines of these, as a tree.

use super::paint::{NAME, SOFT, of_state, painted};
use crate::cli::common::wrap;

/// Something with a state, and what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// Its state, in one word.
    pub state: String,
    /// What else is to be said, on the same line.
    pub told: String,
    /// Why it stands there, below it.
    pub why: Option<String>,
    /// What is below it.
    pub below: Vec<Branch>,
}

/// The tree as lines. With a width, what is longer goes on below; without one, each thing is one line, for programs that look for it.
pub fn drawn(clusters: &[Branch], width: Option<usize>) -> String {
    let longest = longest(clusters);
    let mut text = String::new();
    for cluster in clusters {
        let name = format!("{:<longest$}", cluster.name);
        put(&mut text, ("", ""), &painted(NAME, &name), cluster, width);
        below(&mut text, "", cluster, width);
    }
    text
}

/// No name in a cluster is longer (RFC 1123); beside one that is, the others are not moved aside.
const WIDEST: usize = 63;

/// The width of these names.
fn longest(branches: &[Branch]) -> usize {
    branches.iter().map(|branch| branch.name.chars().count()).max().unwrap_or_default().min(WIDEST)
}

fn below(text: &mut String, margin: &str, branch: &Branch, width: Option<usize>) {
    let longest = longest(&branch.below);
    for (index, one) in branch.below.iter().enumerate() {
        let is_last = index + 1 == branch.below.len();
        let (first, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let name = format!("{:<longest$}", one.name);
        let name = if one.state == "skipped" { painted(SOFT, &name) } else { name };
        let (first, rest) = (format!("{margin}{first}"), format!("{margin}{rest}"));
        put(text, (&first, &rest), &name, one, width);
        below(text, &rest, one, width);
    }
}

/// One thing: behind its margin what it is called, its state, and what is told of it; below that, why.
fn put(text: &mut String, (first, rest): (&str, &str), name: &str, branch: &Branch, width: Option<usize>) {
    let state = match of_state(&branch.state) {
        Some((symbol, style)) => painted(style, &format!("{symbol} {}", branch.state)),
        None => branch.state.clone(),
    };
    let told = if branch.told.is_empty() { String::new() } else { format!(" {}", branch.told) };
    let line = format!("{first}{name}  {state}{told}");
    text.push_str(line.trim_end());
    text.push('\n');
    let Some(why) = branch.why.as_deref().filter(|why| !why.is_empty()) else { return };
    let bar = if branch.below.is_empty() { "   " } else { "│  " };
    let margin = format!("{rest}{bar}");
    let room = width.map(|width| width.saturating_sub(margin.chars().count()).max(20));
    let wrapped = room.map_or_else(|| why.to_owned(), |room| wrap::words(why, room));
    for line in wrapped.lines() {
        text.push_str(&format!("{margin}{line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(name: &str, state: &str, below: Vec<Branch>) -> Branch {
        Branch { name: name.to_owned(), state: state.to_owned(), below, ..Branch::default() }
    }

    #[test]
    fn a_name_without_an_end_is_drawn_and_moves_no_other_aside() {
        let drawn = drawn(&[branch(&"x".repeat(100_000), "done", Vec::new()), branch("y", "done", Vec::new())], None);
        assert!(drawn.len() < 101_000, "{}", drawn.len());
    }

    #[test]
    fn what_is_below_something_stands_under_it_and_why_beside_the_line() {
        let machines = vec![branch("mgmt-1", "running", Vec::new())];
        let stages = vec![branch("capi", "committed", Vec::new()), branch("control-plane", "running", machines)];
        let why = Some("one of two machines is up".to_owned());
        let clusters = [
            Branch { why, told: "at control-plane".to_owned(), ..branch("mgmt", "running", stages) },
            branch("a", "done", Vec::new()),
        ];
        assert_eq!(
            anstream::adapter::strip_str(&drawn(&clusters, Some(27))).to_string(),
            "mgmt  ▶ running at control-plane\n│  one of two machines is\n│    up\n├─ capi           ✓ committed\n└─ control-plane  ▶ running\n   \
             └─ mgmt-1  ▶ running\na     ✓ done\n"
        );
    }
}
