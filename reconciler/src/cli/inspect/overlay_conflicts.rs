//! Conflicts of overlays with what upstream changed, as problems of the repository.

use domain::{Problem, ProblemCode, Severity};
use overlays::Files;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use rollout::RiskKind;

use crate::cli::common::fleet::Opened;

/// What upstream changed of what the clusters' overlays set. Only clusters with overlays are rendered for it; why one cannot be planned is told
/// by `stepgate plan`.
pub(super) fn problems(opened: &Opened) -> Vec<Problem> {
    let files = opened.source();
    let of_all = !files.below("overlays").is_empty();
    let names = opened.fleet().clusters.iter().map(|cluster| cluster.name.as_str());
    let concerned: Vec<&str> = names.filter(|name| of_all || !files.below(&own(name)).is_empty()).collect();
    concerned.into_par_iter().flat_map_iter(|name| of_cluster(opened, name)).collect()
}

fn own(cluster: &str) -> String {
    format!("clusters/{cluster}/overlays")
}

fn of_cluster(opened: &Opened, name: &str) -> Vec<Problem> {
    let Ok(view) = opened.view(name) else { return Vec::new() };
    let risks = view.plan.stages.iter().flat_map(|stage| stage.risks.iter().map(move |risk| (stage, risk)));
    let conflicts = risks.filter(|(_, risk)| risk.kind == RiskKind::OverlayConflict);
    conflicts
        .map(|(stage, risk)| {
            let component = stage.stage.name.to_string();
            let folders = [format!("{}/{component}", own(name)), format!("overlays/{component}")];
            let folder = folders.iter().find(|folder| !opened.source().below(folder).is_empty());
            let problem = Problem::new(ProblemCode::OverlayConflict, risk.text.clone())
                .severity(Severity::Warning)
                .cluster(name)
                .hint("look at both values, and keep, change or drop the patch; `stepgate plan` shows them too");
            folder.iter().fold(problem, |problem, folder| problem.shown_path(folder))
        })
        .collect()
}
