//! `stepgate plan`: what a rollout would do, stage by stage.

use clap::Args;
use serde::Serialize;

use crate::cli::ReportArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::cli::common::output::{Report, Table};
use crate::report::ClusterPlan;

/// Arguments of `stepgate plan`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    /// Exit with 1 when there is something to do.
    #[arg(long)]
    exit_code: bool,
}

/// The plans of a fleet.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PlanReport {
    /// One plan a cluster, in the order of the repository.
    pub clusters: Vec<ClusterPlan>,
}

impl Report for PlanReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        self.clusters.iter().map(|cluster| (Some(title(cluster)), table(cluster))).collect()
    }
}

fn title(cluster: &ClusterPlan) -> String {
    match &cluster.rollout_id {
        Some(rollout) if cluster.commits > 0 => {
            format!(
                "{}: rollout {rollout}, {} commits, {} machines",
                cluster.cluster, cluster.commits, cluster.machines
            )
        }
        _ if cluster.blocked.is_empty() => format!("{}: nothing to do", cluster.cluster),
        _ => cluster.cluster.clone(),
    }
}

fn table(cluster: &ClusterPlan) -> Table {
    let mut table = Table {
        headers: vec!["STAGE", "STATE", "COMPONENT", "CURRENT", "NEXT", "CHANGE", "MACHINES"],
        ..Table::default()
    };
    if cluster.commits == 0 && cluster.blocked.is_empty() {
        return table;
    }
    for stage in &cluster.stages {
        let machines = if stage.machines > 0 { stage.machines.to_string() } else { String::new() };
        let mut shown = stage.changes.iter().filter(|_| stage.state != "skipped").peekable();
        if shown.peek().is_none() {
            let reason = stage.reasons.first().cloned().unwrap_or_default();
            let empty = String::new;
            table.rows.push(vec![stage.name.clone(), stage.state.clone(), empty(), empty(), empty(), reason, machines]);
            continue;
        }
        for (index, change) in shown.enumerate() {
            let first = |text: &String| if index == 0 { text.clone() } else { String::new() };
            let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "-".to_owned());
            table.rows.push(vec![
                first(&stage.name),
                first(&stage.state),
                change.component.clone(),
                version(&change.old_version),
                version(&change.new_version),
                change.class.clone(),
                first(&machines),
            ]);
        }
    }
    for block in &cluster.blocked {
        table.notes.push(format!("blocked ({}): {}", block.code, block.message));
        table.notes.push(format!("  to do: {}", block.help));
    }
    table.notes.extend(approvals(cluster));
    for stage in cluster.stages.iter().filter(|stage| stage.state != "skipped") {
        table.notes.extend(stage.one_way.iter().map(|text| format!("one way ({}): {text}", stage.name)));
        table.notes.extend(stage.risks.iter().map(|text| format!("risk ({}): {text}", stage.name)));
    }
    table.notes.extend(cluster.warnings.iter().map(|text| format!("note: {text}")));
    table
}

/// What people are asked before it is committed, and who has to answer.
fn approvals(cluster: &ClusterPlan) -> impl Iterator<Item = String> {
    let mut rules: Vec<(&str, Vec<&str>)> = Vec::new();
    for stage in cluster.stages.iter().filter(|stage| stage.state == "pending") {
        let Some(wanted) = stage.approvers.as_deref() else { continue };
        match rules.iter_mut().find(|(known, _)| *known == wanted) {
            Some((_, stages)) => stages.push(&stage.name),
            None => rules.push((wanted, vec![&stage.name])),
        }
    }
    let rules = rules.into_iter().map(|(wanted, stages)| format!("approvers of {}: {wanted}", stages.join(", ")));
    let rules: Vec<String> = rules.collect();
    let asked = |approval: &str| {
        let stages = cluster.stages.iter().filter(|stage| stage.state == "pending" && stage.approval == approval);
        stages.map(|stage| stage.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (rollout, stages) = (asked("rollout"), asked("stage"));
    let rollout = (!rollout.is_empty()).then(|| format!("approval: people are asked once, before {rollout}"));
    let stages = (!stages.is_empty()).then(|| format!("approval: people are asked before each of {stages}"));
    rollout.into_iter().chain(stages).chain(rules)
}

/// Prints the plans.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (opened, names) = arguments.report.open()?;
    let plan = |name: &String| match opened.view(name) {
        Ok(view) => {
            let mut plan = ClusterPlan::of(&view.plan, &view.unconfirmed(&opened.reading));
            let pending = view.policy_changes(&opened.reading).into_iter().filter(|change| change.values.is_none());
            plan.warnings.extend(pending.map(|change| change.message(name)));
            plan
        }
        Err(error) => ClusterPlan::broken(name, &error),
    };
    let report = PlanReport { clusters: names.iter().map(plan).collect() };
    output::print(arguments.report.output, &report)?;
    Ok(exit(&report, arguments.exit_code))
}

fn exit(report: &PlanReport, exit_code: bool) -> Exit {
    if report.clusters.iter().any(|cluster| cluster.rollout_id.is_none()) {
        Exit::Error
    } else if report.clusters.iter().any(|cluster| !cluster.blocked.is_empty()) {
        Exit::Blocked
    } else if exit_code && report.clusters.iter().any(|cluster| cluster.commits > 0) {
        Exit::Differences
    } else {
        Exit::Success
    }
}
