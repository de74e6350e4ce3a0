//! What differs between two texts, line by line, and in lines that were changed word by word.

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

/// How many lines around a change are shown.
const AROUND: usize = 1;

/// What part of a changed line has to be as before for the other words to be marked.
const ALIKE: usize = 3;

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// `+`, `-`, or a blank where it is as before.
    pub sign: char,
    /// Its text in pieces; those that are marked are what differs within it.
    pub pieces: Vec<(bool, String)>,
}

/// Lines that stand together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hunk {
    /// The fields that lead there, such as `spec.template`; empty at the top.
    pub place: String,
    /// How many lines before it are as before, and left out.
    pub folded: usize,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// What differs, with the lines around it; all that is between is left out.
pub fn hunks(before: &str, after: &str) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut end = 0;
    let groups = group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), AROUND);
    let hunk = |group: Vec<DiffOp>| {
        let start = group.first().map_or(0, |first| first.new_range().start);
        let folded = start.saturating_sub(end);
        end = group.last().map_or(end, |last| last.new_range().end);
        Hunk { place: place(&new, start), folded, lines: group.iter().flat_map(|op| lines(op, &old, &new)).collect() }
    };
    groups.into_iter().map(hunk).collect()
}

fn lines(operation: &DiffOp, old: &[&str], new: &[&str]) -> Vec<Line> {
    let side = |lines: &[&str], range: std::ops::Range<usize>, sign: char| -> Vec<Line> {
        let lines = lines.get(range).unwrap_or_default();
        lines.iter().map(|text| Line { sign, pieces: vec![(false, (*text).to_owned())] }).collect()
    };
    let (removed, added) = (operation.old_range(), operation.new_range());
    match operation {
        DiffOp::Equal { .. } => side(new, added, ' '),
        DiffOp::Delete { .. } => side(old, removed, '-'),
        DiffOp::Insert { .. } => side(new, added, '+'),
        DiffOp::Replace { .. } => {
            let mut lines = side(old, removed, '-');
            let mut others = side(new, added, '+');
            if lines.len() == others.len() {
                lines.iter_mut().zip(&mut others).for_each(|(old, new)| mark(old, new));
            }
            lines.extend(others);
            lines
        }
    }
}

/// Marks the words that differ between two lines, where most of them are alike.
fn mark(old: &mut Line, new: &mut Line) {
    let text = |line: &Line| line.pieces.iter().map(|(_, text)| text.as_str()).collect::<String>();
    let (before, after) = (text(old), text(new));
    let (left, right) = (words(&before), words(&after));
    let operations = capture_diff_slices(Algorithm::Myers, &left, &right);
    let length = |words: &[&str], range: std::ops::Range<usize>| -> usize {
        words.get(range).unwrap_or_default().iter().map(|word| word.trim().len()).sum()
    };
    let is_equal = |operation: &&DiffOp| matches!(operation, DiffOp::Equal { .. });
    let alike: usize = operations.iter().filter(is_equal).map(|it| length(&left, it.old_range())).sum();
    if alike * ALIKE < length(&left, 0..left.len()).max(length(&right, 0..right.len())) {
        return;
    }
    let pieces = |words: &[&str], range: fn(&DiffOp) -> std::ops::Range<usize>| {
        let piece = |operation: &DiffOp| {
            let text = words.get(range(operation)).unwrap_or_default().concat();
            (!matches!(operation, DiffOp::Equal { .. }), text)
        };
        operations.iter().map(piece).filter(|(_, text)| !text.is_empty()).collect()
    };
    old.pieces = pieces(&left, DiffOp::old_range);
    new.pieces = pieces(&right, DiffOp::new_range);
}

/// Runs of letters and digits, and each other character by itself.
fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_alphanumeric();
        let end = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let Some((word, behind)) = rest.split_at_checked(end) else { break };
        found.push(word);
        rest = behind;
    }
    found
}

/// The fields above a line, by how far each is set in; an item of a list is told by its first field.
fn place(lines: &[&str], at: usize) -> String {
    let depth = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let mut fields: Vec<String> = Vec::new();
    let Some(mut above) = lines.get(at).map(|line| depth(line)) else { return String::new() };
    for line in lines.get(..at).unwrap_or_default().iter().rev().filter(|line| !line.trim().is_empty()) {
        let inside = depth(line);
        if inside >= above {
            continue;
        }
        above = inside;
        let text = line.trim_start_matches([' ', '-']);
        match text.split_once(':') {
            Some((field, "")) => fields.push(field.to_owned()),
            Some((field, value)) => fields.push(format!("[{field}={}]", value.trim())),
            None => {}
        }
    }
    fields.reverse();
    fields.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "kind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n      - name: manager\n        \
                          image: r/m:v1.18.2\n        args: []\n      other: 1\n      more: 2\n      last: 3\n";

    #[test]
    fn words_that_differ_are_marked_and_the_rest_is_folded() {
        let after = BEFORE.replace("v1.18.2", "v1.19.3").replace("last: 3", "last: 4");
        let found = hunks(BEFORE, &after);
        assert_eq!((found[0].folded, found[1].folded), (5, 1));
        let marked: Vec<&str> =
            found[0].lines.iter().flat_map(|line| &line.pieces).filter(|it| it.0).map(|it| it.1.as_str()).collect();
        assert_eq!(marked, ["18", "2", "19", "3"]);
        assert_eq!(found[1].place, "spec.template.spec");
    }

    #[test]
    fn lines_that_are_not_alike_are_not_marked() {
        let found = hunks("a: one\n", "b: two\n");
        assert!(found[0].lines.iter().all(|line| line.pieces.iter().all(|(marked, _)| !marked)), "{found:?}");
    }

    #[test]
    fn pieces_of_a_line_are_all_of_it() {
        for text in ["", "  a-b: über/größe:1.2", "日本: x"] {
            assert_eq!(words(text).concat(), text);
        }
    }
}
