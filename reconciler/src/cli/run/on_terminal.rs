//! Where clusters stand, on the terminal of whoever runs the controller there.

use std::sync::Arc;

use jiff::Timestamp;

use super::verb::PassReport;
use crate::cli::common::output::{self, Report as _};
use crate::cli::inspect::status::tree_of;
use crate::cli::terminal::screen;
use crate::dashboard::Snapshot;
use crate::reconcile::{Controller, ReconcileReport};

/// What is shown there.
#[derive(Debug, Default)]
pub(super) struct OnTerminal {
    shown: String,
}

impl OnTerminal {
    /// Shows the tree of `stepgate status` below what the log says, where it is another one than before. Where there is no terminal, the log
    /// alone tells.
    pub(super) fn show(&mut self, controller: &Controller, pass: &Arc<ReconcileReport>) {
        let Some(width) = screen::width() else { return };
        let tree = match controller.fleet_view() {
            Some(view) => {
                let now = Timestamp::now();
                let snapshot = Snapshot::of_pass(controller.planner(), &view, pass, now);
                tree_of(snapshot.clusters.iter().map(|row| &row.status), Some(width))
            }
            None => PassReport::from(pass.as_ref()).prose().unwrap_or_default(),
        };
        if tree != self.shown {
            // Nobody is there to be told that standard output is closed.
            drop(output::print_text(&tree));
            self.shown = tree;
        }
    }
}
