//! Colours and symbols. They are written always, and taken out again where standard output is no terminal.

use anstyle::{AnsiColor, Style};

/// What is added.
pub const ADDED: Style = AnsiColor::Green.on_default();

/// What is removed.
pub const REMOVED: Style = AnsiColor::Red.on_default();

/// What something is called.
pub const NAME: Style = Style::new().bold();

/// What is there for completeness.
pub const SOFT: Style = Style::new().dimmed();

/// What asks for attention.
pub const ATTENTION: Style = AnsiColor::Yellow.on_default();

/// A text in a style.
pub fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// How a state looks: a shape beside the colour, since not everybody sees that.
pub fn of_state(state: &str) -> Option<(char, Style)> {
    Some(match state {
        // The words of Cluster API are those with a capital.
        "done" | "passed" | "committed" | "verified" | "Running" => ('✓', ADDED),
        "running" => ('▶', AnsiColor::Cyan.on_default()),
        "waiting" | "Pending" | "Provisioning" | "Provisioned" | "Updating" | "Deleting" => ('◷', ATTENTION),
        "held" => ('■', AnsiColor::Red.on_default()),
        "blocked" | "failed" | "Failed" => ('✗', AnsiColor::Red.on_default().bold()),
        "pending" => ('○', Style::new()),
        "skipped" => ('·', SOFT),
        _ => return None,
    })
}
