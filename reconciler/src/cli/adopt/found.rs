//! What was found of a cluster before it is recorded, and whether that lets a record be made.

use crate::cli::common::error::CommandError;
use crate::cli::common::output;
use crate::reconcile::clusters::comparison::Comparison;
use crate::reconcile::planner::ClusterView;

/// What a ledger says of a cluster that did not answer.
const UNREACHED: &str = "unknown: nothing was compared with what runs, since the cluster did not answer";

/// How it is recorded all the same, and what follows.
const ALL_THE_SAME: &str =
    "`--as-declared` records it all the same, and Flux then applies the source branch's side at once, without a gate";

/// What speaks against a record, a line each.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What runs otherwise than the record would say.
    untrue: Vec<String>,
    /// What could not be read of a cluster that answers.
    unknown: Vec<String>,
    /// What nobody can tell from here: it is said in the record and refuses none.
    untold: Vec<String>,
    /// Whether it did not answer at all.
    is_unreached: bool,
}

impl Found {
    /// The cluster did not answer.
    pub(super) fn unreached() -> Self {
        Self { untold: vec![UNREACHED.to_owned()], is_unreached: true, ..Self::default() }
    }

    /// Prints how the cluster differs from the source branch, and what Flux applies of it.
    pub(super) fn print(view: &ClusterView, comparison: &Comparison) -> Result<Self, CommandError> {
        let Comparison { compared, differences, unknown, without_digest, flux, .. } = comparison;
        let name = &view.name;
        let mut text = format!("{name}: {compared} objects compared with what runs, {} differ\n", differences.len());
        for difference in differences {
            text.push_str(&format!("  {difference}\n"));
        }
        let without_digest = without_digest.iter().map(|image| format!("{image}: no pod says its digest"));
        let unknown: Vec<String> = unknown.iter().map(|reason| format!("unknown: {reason}")).collect();
        let untold: Vec<String> = without_digest.map(|reason| format!("unknown: {reason}")).collect();
        for line in unknown.iter().chain(&untold).chain(flux) {
            text.push_str(&format!("  {line}\n"));
        }
        output::print_text(&text)?;
        let untrue: Vec<String> = comparison.untrue().map(ToString::to_string).collect();
        if untrue.is_empty() && !differences.is_empty() {
            output::note(&format!(
                "{name}: nothing of it is there yet: what applies the record installs it, without a gate"
            ));
        }
        Ok(Self { untrue, unknown, untold, is_unreached: false })
    }

    /// Why no record is made; none where one may be.
    pub(super) fn refusal(&self, view: &ClusterView) -> Option<CommandError> {
        let (name, untrue, unknown) = (&view.name, self.untrue.len(), self.unknown.len());
        if self.is_unreached {
            let message = format!(
                "{name} is not recorded: the cluster does not answer, so that nobody knows whether the record would be true"
            );
            let help = format!(
                "name how its management cluster is reached (--kubeconfig, STEPGATE_KUBECONFIG), and adopt again; {ALL_THE_SAME}"
            );
            return Some(CommandError::new(message).hint(help));
        }
        match (untrue, unknown) {
            (0, 0) => None,
            (0, _) => {
                let message = format!(
                    "{name} is not recorded: whether the record would be true is not known, {unknown} reads failed"
                );
                let help = format!("grant reading of what is unknown above, and adopt again; {ALL_THE_SAME}");
                Some(CommandError::new(message).hint(help))
            }
            _ => {
                let message = format!(
                    "{name} is not recorded: the record would say that the source branch's side runs, and {untrue} of it does not"
                );
                Some(
                    CommandError::new(message)
                        .hint(format!("let the source branch say what runs first; {ALL_THE_SAME}")),
                )
            }
        }
    }

    /// What the ledger says of a record that is made all the same.
    pub(super) fn as_declared(&self) -> Vec<String> {
        [&self.untrue, &self.unknown, &self.untold].into_iter().flatten().cloned().collect()
    }
}
