//! How far a long step is: rate and estimate on a terminal, nothing elsewhere.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use git::follow_transfers;
use indicatif::{ProgressBar, ProgressStyle};

use super::printable::printable;

/// What is drawn of a step whose end is known.
const COUNTED: &str = "{prefix} {wide_bar} {pos}/{len}, {per_sec}, {eta} left  {msg}";

/// What is drawn of one whose end is not.
const OPEN: &str = "{spinner} {prefix}, {elapsed}  {msg}";

/// A step that takes its time. It is wiped away when it ends, or is dropped.
#[derive(Debug)]
pub struct Step {
    bar: ProgressBar,
}

impl Step {
    /// A step of so many parts.
    pub fn of(what: &'static str, parts: usize) -> Self {
        Self::drawn(what, COUNTED, ProgressBar::new(u64::try_from(parts).unwrap_or(u64::MAX)))
    }

    /// A step whose end nobody knows.
    pub fn open(what: &'static str) -> Self {
        let step = Self::drawn(what, OPEN, ProgressBar::new_spinner());
        step.bar.enable_steady_tick(Duration::from_millis(200));
        step
    }

    fn drawn(what: &'static str, template: &str, bar: ProgressBar) -> Self {
        // A template that is not understood is drawn as the library draws by itself.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Self { bar }
    }

    /// What it is at.
    pub fn at(&self, part: &str) {
        self.bar.set_message(printable(part).into_owned());
    }

    /// One part is done.
    pub fn next(&self) {
        self.bar.inc(1);
    }

    /// Does something that prints, while nothing is drawn.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The transfer that is shown, and whether one is to be.
static TRANSFER: Mutex<(bool, Option<Step>)> = Mutex::new((false, None));

/// Does something that may fetch the repository, and shows how far that is.
pub fn transferring<T>(fetch: impl FnOnce() -> T) -> T {
    let set = |is_shown: bool| {
        let ended = std::mem::replace(&mut *TRANSFER.lock().unwrap_or_else(PoisonError::into_inner), (is_shown, None));
        drop(ended);
    };
    follow_transfers(transferred);
    set(true);
    let fetched = fetch();
    set(false);
    fetched
}

fn transferred(line: &str) {
    let mut transfer = TRANSFER.lock().unwrap_or_else(PoisonError::into_inner);
    if let (true, step) = &mut *transfer {
        let step = step.get_or_insert_with(|| Step::open("fetching the repository"));
        step.at(&format!("{line}{}", left(line, step.bar.elapsed()).unwrap_or_default()));
    }
}

/// How long the rest of a transfer takes at the pace so far.
fn left(line: &str, elapsed: Duration) -> Option<String> {
    let (before, _) = line.split_once('%')?;
    let done: u64 = before.rsplit(' ').next()?.parse().ok()?;
    let rest = elapsed.as_secs().checked_mul(100_u64.checked_sub(done)?)?.checked_div(done)?;
    (done < 100 && elapsed.as_secs() > 0).then(|| format!(", about {rest} s left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_done() {
        let line = "Receiving objects:  20% (200/1000), 1.20 MiB | 300.00 KiB/s";
        assert_eq!(left(line, Duration::from_secs(10)).as_deref(), Some(", about 40 s left"));
        for line in ["Receiving objects: 100% (1/1), done.", "Receiving objects:   0% (0/9)", "nothing"] {
            assert_eq!(left(line, Duration::from_secs(10)), None, "{line}");
        }
    }

    #[test]
    fn a_step_leaves_nothing_behind_where_there_is_no_terminal() {
        let step = Step::of("fetching", 2);
        step.at("a");
        step.next();
        assert_eq!(step.aside(|| 3), 3);
        assert!(step.bar.is_hidden());
    }
}
