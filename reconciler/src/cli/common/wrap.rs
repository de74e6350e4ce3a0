//! Text within so many columns: what is longer goes on below, and nothing is cut off.

/// No column becomes narrower than this.
const NARROWEST: usize = 8;

/// Columns stand so far apart.
const GAP: usize = 2;

/// After these a long word goes on in the next line.
const BREAKS: &[char] = &['/', '-', '+', '.', ',', ':', '@', '_'];

/// Widths of columns that fit into `width` together: the widest ones give way.
pub(super) fn narrowed(widths: &[usize], width: usize) -> Vec<usize> {
    let mut widths = widths.to_vec();
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
    widths
}

/// A row as the lines of it that fit into the columns.
pub(super) fn row(cells: &[String], widths: &[usize]) -> Vec<Vec<String>> {
    let columns: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, width)| lines(cell, *width)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(1);
    let line = |index: usize| columns.iter().map(|lines| lines.get(index).cloned().unwrap_or_default()).collect();
    (0..height).map(line).collect()
}

/// Whether a word may go on in the next line at this place: after a sign, or where a name in camel case has its next word.
fn may_break(text: &[char], at: usize) -> bool {
    let (Some(before), Some(after)) = (text.get(at.wrapping_sub(1)), text.get(at)) else { return false };
    BREAKS.contains(before) || (before.is_lowercase() && after.is_uppercase())
}

/// A cell in lines of at most `width` characters: broken at blanks, else after a sign, else anywhere.
fn lines(cell: &str, width: usize) -> Vec<String> {
    let mut rest: Vec<char> = cell.chars().collect();
    let mut found = Vec::new();
    while rest.len() > width.max(1) {
        let blank = rest.iter().take(width + 1).rposition(|character| *character == ' ').filter(|at| *at > 0);
        let sign = (1..=width).rev().find(|at| may_break(&rest, *at));
        let end = blank.or(sign).unwrap_or(width.max(1));
        let line: String = rest.drain(..end).collect();
        found.push(line.trim_end().to_owned());
        if rest.first() == Some(&' ') {
            rest.remove(0);
        }
    }
    found.push(rest.into_iter().collect());
    found
}

/// A line in lines of at most `width` columns, broken at blanks: what goes on is set in. A longer word stays whole, so that it can be copied.
pub(in crate::cli) fn words(text: &str, width: usize) -> String {
    let margin = text.chars().take_while(|character| *character == ' ').count();
    let mut wrapped = " ".repeat(margin);
    let mut column = margin;
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(margin + GAP));
            column = margin + GAP;
        } else if index > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_give_way_until_all_fit() {
        assert_eq!(narrowed(&[10, 40, 30], 64), [10, 25, 25]);
        assert_eq!(narrowed(&[10, 20], 64), [10, 20]);
        assert_eq!(narrowed(&[90, 90], 10), [NARROWEST, NARROWEST], "nothing becomes unreadable");
    }

    #[test]
    fn a_long_cell_goes_on_below_and_loses_nothing() {
        let cells = ["capi".to_owned(), "v0.25.0-dev+build.17+c76980a".to_owned(), "no such part here".to_owned()];
        let rows = row(&cells, &[4, 14, 8]);
        assert_eq!(rows[0], ["capi", "v0.25.0-dev+", "no such"]);
        assert_eq!(rows[1], ["", "build.17+", "part"]);
        assert_eq!(rows[2], ["", "c76980a", "here"]);
        assert_eq!(rows.iter().map(|line| line[1].clone()).collect::<String>(), cells[1]);
        assert_eq!(lines("übergrößenträger", 8).concat(), "übergrößenträger");
        assert_eq!(lines("bottlerocketHostContainers", 18), ["bottlerocketHost", "Containers"]);
    }

    #[test]
    fn lines_are_broken_at_blanks_and_set_in() {
        assert_eq!(words("one two three four", 9), "one two\n  three\n  four");
        assert_eq!(words("  to do: a-very-long-word", 10), "  to do:\n    a-very-long-word");
    }
}
