//! Text that is shown again and again: in place on a terminal, below what was shown before elsewhere.

use std::io::IsTerminal as _;

use anstream::{AutoStream, ColorChoice};
use terminal_size::{Height, Width, terminal_size_of};

use crate::cli::common::error::CommandError;
use crate::cli::common::output;
use crate::cli::terminal::printable::printable;

/// How many columns text takes where a terminal does not say how many it has.
const COLUMNS: usize = 100;

/// Columns and lines of the terminal that standard output is; none where it is none.
pub fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = terminal_size_of(&stdout).filter(|(Width(columns), Height(lines))| *columns > 0 && *lines > 0);
    Some(size.map_or((COLUMNS, usize::MAX), |(Width(columns), Height(lines))| (columns.into(), lines.into())))
}

/// How many columns text may take on standard output; none where that is no terminal, and each thing is one line.
pub fn width() -> Option<usize> {
    size().map(|(columns, _)| columns.min(COLUMNS))
}

/// Where it is shown.
#[derive(Debug, Default)]
pub struct Screen {
    shown: Option<String>,
}

impl Screen {
    /// Shows this, where it is not what is shown already.
    ///
    /// # Errors
    /// As [`output::print_text`].
    pub fn show(&mut self, text: &str) -> Result<(), CommandError> {
        let Some((columns, lines)) = size() else {
            if self.shown.as_deref() == Some(text) {
                return Ok(());
            }
            self.shown = Some(text.to_owned());
            return output::print_text(text);
        };
        let text = &*printable(text);
        let plain = AutoStream::choice(&std::io::stdout()) == ColorChoice::Never;
        let text = if plain { anstream::adapter::strip_str(text).to_string() } else { text.to_owned() };
        // A terminal of another size shows another part of the same text.
        let drawn = in_place(&text, columns, lines);
        if self.shown.as_ref() == Some(&drawn) {
            return Ok(());
        }
        let clear = if self.shown.is_none() { "\u{1b}[2J" } else { "" };
        output::print_bytes(format!("{clear}{drawn}").as_bytes())?;
        self.shown = Some(drawn);
        Ok(())
    }
}

/// The text from the upper left corner on. Each line takes the place of the one before, so that nothing flickers, and whatever is left is
/// erased. Lines that there is no room for are counted.
fn in_place(text: &str, columns: usize, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    // A line that is wider than the terminal takes several of its lines.
    let height = |line: &str| anstream::adapter::strip_str(line).to_string().chars().count().div_ceil(columns).max(1);
    let mut room = lines.saturating_sub(2);
    let fits = |line: &&&str| {
        let height = height(line);
        let fits = room >= height;
        room = room.saturating_sub(height);
        fits
    };
    let shown = all.iter().take_while(fits).count();
    let mut drawn = "\u{1b}[H".to_owned();
    for line in all.iter().take(shown) {
        drawn.push_str(&format!("{line}\u{1b}[K\n"));
    }
    match all.len() - shown {
        0 => {}
        more => drawn.push_str(&format!("… {more} more lines\u{1b}[K\n")),
    }
    drawn.push_str("\u{1b}[J");
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_the_place_of_those_before_and_the_rest_is_erased() {
        assert_eq!(in_place("a\nb\n", 80, 24), "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
    }

    #[test]
    fn what_a_small_terminal_has_no_room_for_is_counted() {
        assert_eq!(in_place("a\nb\nc\n", 80, 4), "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n… 1 more lines\u{1b}[K\n\u{1b}[J");
        assert_eq!(in_place("aaaa\nb\n", 2, 4), "\u{1b}[Haaaa\u{1b}[K\n… 1 more lines\u{1b}[K\n\u{1b}[J");
    }
}
