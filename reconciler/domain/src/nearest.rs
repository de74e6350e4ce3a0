//! The nearest known name to a misspelt one.

/// The name of `known` with the fewest edits to `name`, if those are few for its length; the first one when several are.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let allowed = 1 + name.chars().count() / 4;
    let folded = name.to_lowercase();
    known
        .iter()
        .map(|candidate| (distance(&folded, &candidate.to_lowercase()), *candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals, replacements and swaps of neighbours that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, left) in from.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, right) in to.iter().enumerate() {
            let cell = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut edits = (cell(&last, column) + usize::from(left != right))
                .min(cell(&last, column + 1) + 1)
                .min(cell(&line, column) + 1);
            let swapped = row > 0
                && column > 0
                && from.get(row - 1) == Some(right)
                && to.get(column - 1) == Some(left)
                && left != right;
            if swapped {
                edits = edits.min(cell(&before, column - 1) + 1);
            }
            line.push(edits);
        }
        before = std::mem::replace(&mut last, line);
    }
    last.last().copied().unwrap_or(from.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_not_strangers() {
        let known = ["soak", "timeout", "approval", "onFailure", "allowDowngrade"];
        for (name, expected) in [
            ("saok", Some("soak")),
            ("timout", Some("timeout")),
            ("on_failure", Some("onFailure")),
            ("allowdowngrade", Some("allowDowngrade")),
            ("aproval", Some("approval")),
            ("bundle", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
    }
}
