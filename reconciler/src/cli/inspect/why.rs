//! `stepgate why`: what a cluster waits for, since when, until when, and what helps.

use clap::Args;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::cli::common::when::Teller;
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::observe::explain::{Explainer, State};
use crate::reconcile::people::facts::overridden;
use crate::report::WhyReport;
use cluster::kubernetes::{Connection, Emergency, emergencies};

/// Arguments of `stepgate why`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Report for WhyReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        vec![(None, Table { notes: lines(self, &Teller::here()), ..Table::default() })]
    }
}

/// One line each, times as people read them.
fn lines(report: &WhyReport, teller: &Teller) -> Vec<String> {
    let when = |time: &String| time.parse().map_or_else(|_| time.clone(), |time| teller.when(time));
    let stage = report.stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
    let rollout = report.rollout.as_ref().map(|rollout| format!(" (rollout {rollout})")).unwrap_or_default();
    let mut lines = vec![format!("{} is {}{stage}{rollout}", report.cluster, report.state)];
    lines.extend(report.chain.iter().map(|chain| format!("  chain: {chain}")));
    lines.extend(report.reasons.iter().map(|reason| format!("  why: {}", teller.told(reason))));
    lines.extend(report.since.iter().map(|since| format!("  since: {}", when(since))));
    lines.extend(report.until.iter().map(|until| format!("  until: {}", when(until))));
    lines.extend(report.tanzu.iter().map(|tanzu| format!("  tanzu: {}", teller.told(&tanzu.line))));
    lines.extend(report.way_back.iter().map(|told| format!("  way back: {}", teller.told(told))));
    lines.extend(report.approvals.iter().map(|approval| format!("  approved: {}", teller.told(approval))));
    lines.extend(report.overridden.iter().map(|by| format!("  rules set aside: {}", teller.told(by))));
    lines.extend(report.emergencies.iter().map(|line| format!("  open to anybody: {}", teller.told(line))));
    lines.extend(report.advice.iter().map(|help| format!("  what helps: {}", teller.told(help))));
    lines
}

/// Prints why. Nothing is committed and nothing is changed in the cluster.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let access = arguments.access.open()?;
    let runtime = crate::cli::run::verb::runtime()?;
    let explainer = Explainer::new(&opened.planner, &opened.reading, access.as_ref(), &SystemClock);
    let connection = arguments.access.connect()?.ok();
    let (explanation, emergencies) =
        runtime.block_on(async { futures::join!(explainer.explain(&view), look(connection.as_ref())) });
    let explanation = explanation?;
    let aside = overridden(&opened.planner, &opened.reading, &view)?;
    output::print(arguments.output, &WhyReport::of(&view, &explanation, aside.as_ref(), &emergencies))?;
    Ok(exit(explanation.state))
}

/// What the guard lets anybody change. Of a server that does not answer, the reasons say so already.
async fn look(connection: Option<&Connection>) -> Vec<Emergency> {
    let Some(connection) = connection else { return Vec::new() };
    match emergencies(connection).await {
        Ok(found) => found,
        Err(error) => {
            if !error.is_unreachable() {
                output::note(&format!("note: whether something carries stepgate.dev/emergency is not known: {error}"));
            }
            Vec::new()
        }
    }
}

/// The exit code of a cluster that stands so.
pub(in crate::cli) fn exit(state: State) -> Exit {
    match state {
        State::Done => Exit::Success,
        State::Running | State::Waiting => Exit::Waiting,
        State::Held => Exit::Stopped,
        State::Blocked => Exit::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn each_reason_and_each_advice_has_a_line_of_its_own() {
        let report = WhyReport {
            cluster: "mgmt".to_owned(),
            state: "held".to_owned(),
            rollout: Some("a1".to_owned()),
            chain: Some("rollout 1 of 2 on the way to Kubernetes 1.34 with bundles-81".to_owned()),
            stage: Some("cilium".to_owned()),
            reasons: vec!["one".to_owned(), "it takes over at 2026-11-25T15:16:20Z".to_owned()],
            since: Some("2026-11-25T14:36:00Z".to_owned()),
            until: Some("2026-11-25T15:16:20Z".to_owned()),
            help: Some("first".to_owned()),
            advice: vec!["first".to_owned(), "second".to_owned()],
            way_back: Some("until 2026-11-25T15:16:20Z".to_owned()),
            tanzu: None,
            approvals: Vec::new(),
            overridden: None,
            emergencies: vec!["KubeadmControlPlane fleet/mgmt: etcd is full".to_owned()],
        };
        let teller = Teller::new("2026-11-25T14:48:10Z".parse().unwrap(), TimeZone::UTC);
        let expected = [
            "mgmt is held at cilium (rollout a1)",
            "  chain: rollout 1 of 2 on the way to Kubernetes 1.34 with bundles-81",
            "  why: one",
            "  why: it takes over in 28 min (15:16)",
            "  since: 12 min ago (14:36)",
            "  until: in 28 min (15:16)",
            "  way back: until 15:16 (in 28 min)",
            "  open to anybody: KubeadmControlPlane fleet/mgmt: etcd is full",
            "  what helps: first",
            "  what helps: second",
        ];
        assert_eq!(lines(&report, &teller), expected);
    }
}
