//! Making a text fit into what a forge takes: always in the same way, and it says what is left out.

use std::collections::BTreeMap;

/// The longest text of a pull request, in bytes: what the strictest forge takes, and a little less.
pub const LONGEST: usize = 60_000;

/// Of how many clusters at most the names are told in a line that is the same for many.
const NAMED: usize = 8;

/// What is said of entries that every `proposal.md` has.
pub const ELSEWHERE: &str = "each cluster's `proposal.md` on the branch has its own";

/// Lines that many clusters may share, each once, with those that it is about.
pub fn shared<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>, room: usize, what: &str) -> String {
    let mut shared: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, cluster) in lines {
        let place = *places.entry(line).or_insert(shared.len());
        match shared.get_mut(place) {
            Some((_, clusters)) => clusters.push(cluster),
            None => shared.push((line, vec![cluster])),
        }
    }
    let lines = shared.into_iter().map(|(line, mut clusters)| {
        clusters.dedup();
        let more = clusters.len().saturating_sub(NAMED);
        clusters.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("- {}{more}: {line}\n", clusters.join(", "))
    });
    fitting(lines, room, &format!("{what}: {ELSEWHERE}"))
}

/// As many lines as there is room for, and how many are left out.
pub fn fitting(lines: impl Iterator<Item = String>, room: usize, what: &str) -> String {
    let (mut text, mut left_out) = (String::new(), 0_usize);
    for line in lines {
        if left_out == 0 && text.len() + line.len() <= room {
            text.push_str(&line);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        text.push_str(&format!("\n… and {left_out} more {what}.\n"));
    }
    text
}

/// A text from elsewhere as part of a line: it stays there, and nothing in it is a tag or a mark of ours.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().replace('<', "&lt;")
}

/// The same inside of a cell. What is escaped already stays as it is.
pub fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

/// As much of a text as there is room for.
pub fn shortened(mut text: String, room: usize) -> String {
    if text.len() <= room {
        return text;
    }
    let cut = "\n\n… cut off here; the whole text is `proposal.md` on the branch.\n";
    let room = room.saturating_sub(cut.len());
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text.truncate(end);
    text.push_str(cut);
    text
}

/// As much of a text as a forge takes.
pub fn whole(text: String) -> String {
    shortened(text, LONGEST)
}
