//! Logs: structured, on standard error, never on standard output.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Console,
    /// One JSON object per line.
    Json,
}

/// Installs the subscriber for the whole process. A second call changes nothing.
///
/// `level` is a `tracing` filter directive such as `info` or `stepgate=debug`; one that cannot be read counts as `info`.
pub fn install(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    // The same rule as for everything else on standard error: a terminal, and `NO_COLOR` not set.
    let colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).with_ansi(colours);
    // An error here means that a subscriber is installed already, as in tests: that one stays.
    let _ = match format {
        LogFormat::Console => builder.compact().try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
