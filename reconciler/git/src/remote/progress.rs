//! Whether a transfer of the `git` program gets on, by what it says on standard error.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What counts as getting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, on the average of `patience`.
    pub bytes_per_second: u64,
    /// How long a transfer may be slower than that, or say nothing new.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { bytes_per_second: 1_000, patience: Duration::from_secs(60) }
    }
}

/// How long the other side may prepare something, as it says itself: its words prove nothing.
const PREPARATION: Duration = Duration::from_secs(600);

/// Who is told how far transfers are.
static TOLD: OnceLock<fn(&str)> = OnceLock::new();

/// From now on, each line by which git itself says how far a transfer is goes to `told`: `Receiving objects:  12% (123/1000), 1.20 MiB`. What
/// the other side says is not among them. Whoever comes first is told, of all repositories of the process.
pub fn follow_transfers(told: fn(&str)) {
    let _ = TOLD.set(told);
}

/// Whether a line is one of git's own on a transfer.
fn is_of_transfer(line: &str) -> bool {
    let begins = ["Receiving objects:", "Resolving deltas:"].iter().any(|begin| line.starts_with(begin));
    begins && line.chars().all(|character| character == ' ' || character.is_ascii_graphic())
}

/// Follows a transfer.
pub(crate) struct Progress {
    pace: Pace,
    begun: Instant,
    /// Until when it may say nothing.
    deadline: Instant,
    bytes: u64,
    line: Vec<u8>,
    last: Vec<u8>,
}

impl Progress {
    pub(crate) fn new(pace: Pace, now: Instant) -> Self {
        Self { pace, begun: now, deadline: now + pace.patience, bytes: 0, line: Vec::new(), last: Vec::new() }
    }

    /// Whether it has stood still for too long.
    pub(crate) fn has_stalled(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// Takes what the program has written.
    pub(crate) fn take(&mut self, written: &[u8], now: Instant) {
        for byte in written {
            match byte {
                b'\r' | b'\n' => self.end_line(now),
                byte if self.line.len() < 400 => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self, now: Instant) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() || line == self.last {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(told) = TOLD.get().filter(|_| is_of_transfer(&text)) {
            told(&text);
        }
        let whole = now + self.pace.patience;
        if text.starts_with("remote:") {
            self.deadline = self.deadline.max(whole.min(self.begun + PREPARATION));
        } else if let Some(bytes) = transferred(&text) {
            // Each byte buys the time that it may take, and nobody saves up more than the patience.
            let new = bytes.saturating_sub(self.bytes);
            let bought = Duration::from_millis(new.saturating_mul(1_000) / self.pace.bytes_per_second.max(1));
            self.deadline = (self.deadline + bought.min(self.pace.patience)).min(whole);
            self.bytes = self.bytes.max(bytes);
        } else if text.contains("% (") || text.contains(": ") {
            // Work of our own side, such as resolving deltas.
            self.deadline = whole;
        }
        self.last = line;
    }
}

/// The bytes of `Receiving objects:  12% (123/1000), 1.20 MiB | 300.00 KiB/s`.
fn transferred(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("), ")?;
    let amount = rest.split(" | ").next()?.split(',').next()?.trim();
    let (number, unit) = amount.split_once(' ')?;
    let factor: f64 = match unit.trim_end_matches('.') {
        "bytes" | "byte" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Some((number * factor) as u64)
}

/// What a program said that is no progress: the last lines of it.
pub(crate) fn without_progress(text: &str) -> String {
    const LINES: usize = 40;
    let is_progress = |line: &str| {
        let line = line.strip_prefix("remote: ").unwrap_or(line);
        line.contains("% (")
            || ["Enumerating objects:", "Total ", "Counting objects:"].iter().any(|it| line.starts_with(it))
    };
    let lines: Vec<&str> =
        text.split(['\n', '\r']).filter(|line| !line.trim().is_empty() && !is_progress(line)).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    last.iter().map(|line| format!("{}\n", line.chars().take(1_000).collect::<String>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { bytes_per_second: 1_000, patience: Duration::from_secs(10) };

    fn at(begun: Instant, seconds: u64) -> Instant {
        begun + Duration::from_secs(seconds)
    }

    #[test]
    fn only_lines_of_git_itself_are_told() {
        for (line, expected) in [
            ("Receiving objects:  12% (123/1000), 1.20 MiB | 300.00 KiB/s", true),
            ("Resolving deltas: 100% (4/4), done.", true),
            ("remote: Receiving objects: 12%", false),
            ("Receiving objects: \u{1b}[2J", false),
        ] {
            assert_eq!(is_of_transfer(line), expected, "{line}");
        }
    }

    #[test]
    fn bytes_are_read_off_the_lines_of_git() {
        for (line, bytes) in [
            ("Receiving objects:  12% (123/1000), 1.50 MiB | 300.00 KiB/s", Some(1_572_864)),
            ("Receiving objects: 100% (3/3), 210 bytes | 210.00 KiB/s, done.", Some(210)),
            ("Writing objects: 100% (3/3), 2.00 GiB | 3.00 MiB/s, done.", Some(2 << 30)),
            ("Receiving objects:  12% (123/1000)", None),
            ("Resolving deltas:  50% (1/2)", None),
            ("Receiving objects:  12% (1/10), -5 MiB | x", None),
        ] {
            assert_eq!(transferred(line), bytes, "{line}");
        }
    }

    #[test]
    fn a_slow_transfer_goes_on_as_long_as_it_gets_on() {
        let begun = Instant::now();
        let mut progress = Progress::new(PACE, begun);
        for second in 1..1_000_u64 {
            let line = format!("Receiving objects:  1% (1/{second}), {}.00 KiB | 2 KiB/s\r", second * 2);
            progress.take(line.as_bytes(), at(begun, second));
            assert!(!progress.has_stalled(at(begun, second)));
        }
        assert!(progress.has_stalled(at(begun, 1_010)));
    }

    #[test]
    fn a_trickle_silence_and_idle_talk_of_the_other_side_end() {
        let begun = Instant::now();
        let says: [fn(u64) -> String; 3] = [
            |second| {
                format!("Receiving objects:  1% (1/9), {second}.00 KiB | 0.1 KiB/s\r").replace(".00 KiB", " bytes")
            },
            |_| "Receiving objects:  1% (1/9), 3 bytes | 0 bytes/s\r".to_owned(),
            |second| format!("remote: Counting objects: {second}\r"),
        ];
        for say in says {
            let mut progress = Progress::new(PACE, begun);
            let end = (1..2_000).find(|second| {
                progress.take(say(*second).as_bytes(), at(begun, *second));
                progress.has_stalled(at(begun, *second))
            });
            assert!(end.is_some_and(|second| second <= 611), "{end:?}");
        }
    }

    #[test]
    fn work_of_our_own_side_counts_and_only_its_last_words_are_kept() {
        let begun = Instant::now();
        let mut progress = Progress::new(PACE, begun);
        for second in 1..100 {
            progress.take(format!("Resolving deltas:  50% ({second}/200)\r").as_bytes(), at(begun, second));
            assert!(!progress.has_stalled(at(begun, second)));
        }
        let said = "remote: Counting objects: 5, done.\nReceiving objects: 5% (1/2)\rfatal: no\nremote: hook says no\n";
        assert_eq!(without_progress(said), "fatal: no\nremote: hook says no\n");
    }
}
