//! One way to print what a read verb found: `-o table|json|yaml|markdown`, data on standard output.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use super::error::CommandError;
use super::wrap;
use crate::cli::terminal::paint;
use crate::cli::terminal::printable::printable;

/// The form of the data on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Columns for people; colours on a terminal only.
    #[default]
    Table,
    /// One JSON document, schema in `reconciler/schemas/`.
    Json,
    /// The same document as YAML.
    Yaml,
    /// The table for a pull request or a page.
    Markdown,
    /// Every column, each row on one line, however long.
    Wide,
    /// Names alone, one a line: for other programs.
    Name,
}

/// A table: upper-case headers, rows of as many cells, and lines below for what does not fit a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Column names.
    pub headers: Vec<&'static str>,
    /// Cells, one row per thing.
    pub rows: Vec<Vec<String>>,
    /// Lines after the table: reasons, what to do next.
    pub notes: Vec<String>,
    /// How many columns of text it may take for people: what is longer goes on below. None: as many as it takes.
    pub width: Option<usize>,
}

/// What a read verb found: a document with a stable shape, and the same as tables for people.
pub trait Report: Serialize {
    /// The tables, each with an optional title.
    fn tables(&self) -> Vec<(Option<String>, Table)>;

    /// What people read instead of the tables; none where they read these.
    fn prose(&self) -> Option<String> {
        None
    }

    /// What it is about, by name: the first column, each name once.
    fn names(&self) -> Vec<String> {
        let tables = self.tables();
        let mut names: Vec<String> = Vec::new();
        for name in tables.iter().flat_map(|(_, table)| &table.rows).filter_map(|row| row.first()) {
            if !name.is_empty() && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// Prints the report in the form asked for.
///
/// # Errors
/// When standard output cannot be written (a closed pipe is no error) or the report cannot be serialized.
pub fn print<R: Report>(format: Format, report: &R) -> Result<(), CommandError> {
    let text = match format {
        Format::Json => return print_content(&format!("{}\n", serde_json::to_string_pretty(report)?)),
        Format::Yaml => return print_content(&serde_yaml::to_string(report)?),
        Format::Table => text(report),
        Format::Markdown => render(report, markdown),
        Format::Wide => render(report, wide),
        Format::Name => report.names().iter().map(|name| format!("{name}\n")).collect(),
    };
    print_text(&text)
}

/// The report as people read it.
pub fn text<R: Report>(report: &R) -> String {
    report.prose().unwrap_or_else(|| render(report, plain))
}

/// Prints one JSON document on one line: for streams of documents.
///
/// # Errors
/// As [`print`].
pub fn print_line<T: Serialize>(document: &T) -> Result<(), CommandError> {
    print_content(&format!("{}\n", serde_json::to_string(document)?))
}

/// Prints text for people, without what would steer their terminal.
///
/// # Errors
/// As [`print`].
pub fn print_text(text: &str) -> Result<(), CommandError> {
    write(&mut anstream::stdout().lock(), printable(text).as_bytes())
}

/// Prints a document or the content of a file: byte by byte for a program that reads it, and as [`print_text`] for people.
///
/// # Errors
/// As [`print`].
pub fn print_content(text: &str) -> Result<(), CommandError> {
    if io::stdout().is_terminal() { print_text(text) } else { print_bytes(text.as_bytes()) }
}

/// Prints bytes as they are, colour codes included: for what others read byte by byte.
///
/// # Errors
/// As [`print`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), CommandError> {
    write(&mut io::stdout().lock(), bytes)
}

/// Writes one line to standard error: a remark on what is printed.
pub fn note(line: &str) {
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(line));
}

fn write(stdout: &mut dyn Write, bytes: &[u8]) -> Result<(), CommandError> {
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // `stepgate plan | head` is a normal thing to do.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn render<R: Report>(report: &R, write: fn(&Table) -> String) -> String {
    let mut text = String::new();
    for (index, (title, table)) in report.tables().iter().enumerate() {
        if index > 0 && !text.ends_with("\n\n") {
            text.push('\n');
        }
        let body = write(table);
        if let Some(title) = title {
            text.push_str(title);
            text.push_str(if body.is_empty() { "\n" } else { "\n\n" });
        }
        text.push_str(&body);
    }
    text
}

/// The widest that a column is made, in characters. What people write has no end: a longer cell stands out of its
/// column, and a formatter that is asked for 65,536 or more panics.
const WIDEST: usize = 1000;

fn wide(table: &Table) -> String {
    plain(&Table { width: None, ..table.clone() })
}

fn plain(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        let header = table.headers.get(column).map_or(0, |header| header.chars().count());
        cells.chain([header]).max().unwrap_or(0)
    };
    let natural: Vec<usize> = (0..table.headers.len()).map(width).collect();
    let widths = table.width.map_or_else(|| natural.clone(), |width| wrap::narrowed(&natural, width));
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<&str> = cells.collect();
        // Nothing is padded at the end of a line.
        let last = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
        for (index, (cell, width)) in cells.iter().zip(&widths).take(last).enumerate() {
            text.push_str(&cell_in_its_style(cell, table.headers.get(index) == Some(cell)));
            if index + 1 < last {
                let padding = (*width).min(WIDEST).saturating_sub(cell.chars().count()) + 2;
                text.extend(std::iter::repeat_n(' ', padding));
            }
        }
        text.push('\n');
    };
    if !table.rows.is_empty() {
        line(&mut table.headers.iter().copied());
        for row in table.rows.iter().flat_map(|row| wrap::row(row, &widths)) {
            line(&mut row.iter().map(String::as_str));
        }
    }
    for note in &table.notes {
        let note = table.width.map_or_else(|| note.clone(), |width| wrap::words(note, width));
        text.push_str(&note_in_its_style(&note));
        text.push('\n');
    }
    text
}

/// A cell: headers stand out, and states have the colour that they have everywhere.
fn cell_in_its_style(cell: &str, is_header: bool) -> String {
    match paint::of_state(cell) {
        _ if is_header => paint::painted(paint::NAME, cell),
        Some((_, style)) => paint::painted(style, cell),
        None => cell.to_owned(),
    }
}

/// What a line says of itself stands out: `blocked`, `no way back`, `risk`.
fn note_in_its_style(note: &str) -> String {
    let Some((label, rest)) = note.split_once(": ").filter(|(label, _)| label.len() <= 40) else {
        return note.to_owned();
    };
    let word = label.trim_start().split(" (").next().unwrap_or_default();
    let style = match word {
        "blocked" | "error" => paint::REMOVED.bold(),
        "no way back" | "one way" | "risk" | "risks" | "approval" => paint::ATTENTION,
        "changes" | "rolls" | "upgrades in place" | "to do" | "what helps" | "why" => paint::NAME,
        "note" | "skipped" => paint::SOFT,
        _ if word.starts_with("approvers of") => paint::ATTENTION,
        _ => return note.to_owned(),
    };
    format!("{}: {rest}", paint::painted(style, label))
}

fn markdown(table: &Table) -> String {
    let row = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut text = String::new();
    if !table.rows.is_empty() {
        text.push_str(&row(&mut table.headers.iter().map(ToString::to_string)));
        text.push_str(&row(&mut table.headers.iter().map(|_| "---".to_owned())));
        for cells in &table.rows {
            // A cell must not end the row or the column.
            text.push_str(&row(&mut cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "))));
        }
        text.push('\n');
    }
    for note in &table.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it is read where there is no terminal.
    fn uncoloured(table: &Table) -> String {
        anstream::adapter::strip_str(&plain(table)).to_string()
    }

    fn table() -> Table {
        Table {
            headers: vec!["STAGE", "STATE"],
            rows: vec![vec!["cert-manager".into(), "done".into()], vec!["capi".into(), "a|b".into()]],
            notes: vec!["next: stepgate why demo".into()],
            width: None,
        }
    }

    #[test]
    fn a_cell_of_any_length_is_printed_whole() {
        let long = "x".repeat(100_000);
        let rows = vec![vec![long.clone(), "b".to_owned()], vec!["a".to_owned(), "b".to_owned()]];
        let text = uncoloured(&Table { headers: vec!["ONE", "TWO"], rows, ..Table::default() });
        assert!(text.contains(&format!("{long}  b\n")) && text.contains("\na  "), "{} bytes", text.len());
        assert!(text.len() < 2 * long.len(), "nothing is padded to that length");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_have_no_trailing_space() {
        assert_eq!(
            uncoloured(&table()),
            "STAGE         STATE\ncert-manager  done\ncapi          a|b\nnext: stepgate why demo\n"
        );
    }

    #[test]
    fn markdown_escapes_what_would_end_a_cell() {
        let text = markdown(&table());
        assert!(text.contains("| capi | a\\|b |"), "{text}");
        assert!(text.contains("- next: stepgate why demo"), "{text}");
    }

    #[test]
    fn a_table_without_rows_prints_its_notes_alone() {
        let table = Table { headers: vec!["STAGE"], notes: vec!["nothing to do".into()], ..Table::default() };
        assert_eq!(uncoloured(&table), "nothing to do\n");
        assert_eq!(markdown(&table), "- nothing to do\n");
    }
}
