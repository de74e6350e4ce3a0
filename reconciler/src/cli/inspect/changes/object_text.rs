//! What changes, object by object, within 100 columns: folded, and the same change told once.

use anstyle::{Effects, Style};
use overlays::FileChange;

use super::lines::{Hunk, Line, hunks};
use crate::cli::common::wrap;
use crate::cli::terminal::paint::{ADDED, NAME, REMOVED, SOFT, painted};
use crate::report::ObjectChange;

/// How many columns it takes.
const WIDTH: usize = 100;

/// How many lines of one object are shown.
const SHOWN: usize = 40;

/// The changes of one stage of a cluster. `verbose` shows every line, those of new objects included.
pub(super) fn stage(cluster: &str, stage: &str, changes: &[ObjectChange], verbose: bool) -> String {
    let mut text = String::new();
    for file in changes.chunk_by(|one, other| one.path == other.path) {
        let path = file.first().map(|first| first.path.as_str()).unwrap_or_default();
        text.push_str(&painted(NAME, &format!("{cluster}, {stage}: {path}")));
        text.push('\n');
        text.push_str(&painted(SOFT, &counted(file)));
        text.push('\n');
        for group in alike(file) {
            text.push('\n');
            text.push_str(&told(&group, verbose));
        }
        text.push('\n');
    }
    text
}

fn counted(changes: &[ObjectChange]) -> String {
    let of = |change: FileChange, word: &str| {
        let count = changes.iter().filter(|it| it.change == change).count();
        (count > 0).then(|| format!("{count} {word}"))
    };
    let words = [of(FileChange::Modified, "changed"), of(FileChange::Added, "new"), of(FileChange::Removed, "gone")];
    let objects = if changes.len() == 1 { "object" } else { "objects" };
    format!("{objects}: {}", words.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Objects that change in the same way.
struct Alike<'a> {
    first: &'a ObjectChange,
    hunks: Vec<Hunk>,
    others: Vec<&'a ObjectChange>,
}

fn alike(changes: &[ObjectChange]) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike<'_>> = Vec::new();
    for change in changes {
        let hunks = hunks(&change.before, &change.after);
        let same = groups.iter_mut().find(|group| {
            let is_same = |one: &Hunk, other: &Hunk| one.lines == other.lines && one.place == other.place;
            group.first.change == change.change
                && group.hunks.len() == hunks.len()
                && group.hunks.iter().zip(&hunks).all(|(one, other)| is_same(one, other))
        });
        match same {
            Some(group) => group.others.push(change),
            None => groups.push(Alike { first: change, hunks, others: Vec::new() }),
        }
    }
    groups
}

fn told(group: &Alike<'_>, verbose: bool) -> String {
    let object = painted(NAME, &group.first.object);
    let length = |text: &str| match text.lines().count() {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    };
    let mut text = match group.first.change {
        FileChange::Modified => format!("{object}\n"),
        FileChange::Added => {
            format!("{object} {}\n", painted(ADDED, &format!("is new, {}", length(&group.first.after))))
        }
        FileChange::Removed => {
            format!("{object} {}\n", painted(REMOVED, &format!("is gone, {}", length(&group.first.before))))
        }
    };
    if group.first.change == FileChange::Modified || verbose {
        text.push_str(&body(&group.hunks, verbose));
    }
    if !group.others.is_empty() {
        let names: Vec<&str> = group.others.iter().map(|other| other.object.as_str()).collect();
        let same = format!("the same in {} more: {}", names.len(), names.join(", "));
        text.push_str(&painted(SOFT, &wrap::words(&same, WIDTH)));
        text.push('\n');
    }
    text
}

fn body(hunks: &[Hunk], verbose: bool) -> String {
    let mut text = String::new();
    let mut room = if verbose { usize::MAX } else { SHOWN };
    let mut left = 0;
    for hunk in hunks {
        left += hunk.lines.len().saturating_sub(room);
        if room == 0 {
            continue;
        }
        if hunk.folded > 0 || !hunk.place.is_empty() {
            let place = if hunk.place.is_empty() { String::new() } else { format!(" {}", hunk.place) };
            text.push_str(&painted(SOFT, &wrap::words(&format!("…{place}"), WIDTH)));
            text.push('\n');
        }
        for line in hunk.lines.iter().take(room) {
            text.push_str(&drawn(line));
        }
        room = room.saturating_sub(hunk.lines.len());
    }
    if left > 0 {
        text.push_str(&painted(SOFT, &format!("… {left} more lines; `--verbose` shows them")));
        text.push('\n');
    }
    text
}

/// A line in its colour, the words that differ marked. What is longer than the width goes on below, behind the same sign.
fn drawn(line: &Line) -> String {
    let style = match line.sign {
        '+' => ADDED,
        '-' => REMOVED,
        _ => Style::new(),
    };
    let mut text = format!("{style}{}", line.sign);
    let mut column = 1;
    for (is_marked, piece) in &line.pieces {
        let marked = style.effects(Effects::INVERT);
        if *is_marked {
            text.push_str(&format!("{style:#}{marked}"));
        }
        for character in piece.chars() {
            if column == WIDTH {
                text.push_str(&format!("\n{}    ", line.sign));
                column = 5;
            }
            text.push(character);
            column += 1;
        }
        if *is_marked {
            text.push_str(&format!("{marked:#}{style}"));
        }
    }
    format!("{text}{style:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(object: &str, before: &str, after: &str) -> ObjectChange {
        let change = match (before, after) {
            ("", _) => FileChange::Added,
            (_, "") => FileChange::Removed,
            _ => FileChange::Modified,
        };
        let text = str::to_owned;
        ObjectChange {
            path: text("clusters/a/x.yaml"),
            object: text(object),
            change,
            before: text(before),
            after: text(after),
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn the_same_change_is_told_once_and_new_objects_in_one_line() {
        let changes = [
            change("Role a", "v: 1\n", "v: 2\n"),
            change("Role b", "v: 1\n", "v: 2\n"),
            change("Role c", "", "v: 1\nw: 2\n"),
        ];
        assert_eq!(
            plain(&stage("mgmt", "capi", &changes, false)),
            "mgmt, capi: clusters/a/x.yaml\nobjects: 2 changed, 1 new\n\nRole a\n-v: 1\n+v: 2\nthe same in 1 more: Role b\n\n\
             Role c is new, 2 lines\n\n"
        );
        assert!(plain(&stage("mgmt", "capi", &changes, true)).contains("+w: 2\n"));
    }

    #[test]
    fn a_long_change_is_cut_and_a_long_line_goes_on_below() {
        let long: String = (0..200).map(|number| format!("- {number}\n")).collect();
        let told = plain(&stage("a", "capi", &[change("Role a", "x: 1\n", &format!("x: 1\n{long}"))], false));
        assert!(told.contains("… 161 more lines; `--verbose` shows them\n"), "{told}");
        let wide =
            plain(&stage("a", "capi", &[change("Role a", "x: 1\n", &format!("x: {}\n", "y".repeat(300)))], false));
        assert!(wide.lines().all(|line| line.chars().count() <= WIDTH), "{wide}");
        assert_eq!(wide.matches('y').count(), 301 - 1 + "yaml".matches('y').count());
    }
}
