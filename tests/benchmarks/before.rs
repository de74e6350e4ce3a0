//! P11: what is looked for before a rollout begins: APIs that go, in 10,000 manifests, and what keeps 1,000 nodes with 30,000
//! pods from being drained.

use std::time::Duration;

use anyhow::ensure;
use jiff::Timestamp;
use policy::CheckName;
use rollout::check::{CheckStatus, outcomes};
use rollout::{
    ChecksExpectation, DisruptionBudget, EvictedPod, Inspection, NewGroup, NodeRoom, Observation, ReplacedGroup,
    Resources,
};

use crate::Environment;
use crate::measure::ours;
use crate::report::{Report, median};

const OBJECTS: usize = 10_000;
const NODES: usize = 1_000;
const PODS: usize = 30_000;
/// Every so many pods have a budget of their own.
const OF_BUDGET: usize = 10;

/// What the program does when this benchmark runs it.
pub const PROGRAM_VERB: &str = "check-apis-once";

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let mut report = Report {
        work: format!("find APIs that go in {OBJECTS} objects; forecast the drain of {NODES} nodes with {PODS} pods"),
        ..Report::default()
    };
    let folder = environment.scratch.path().join("manifests");
    std::fs::create_dir_all(&folder)?;
    for number in 0..OBJECTS {
        // One in a thousand is of an API that goes.
        let api = if number % 1000 == 0 { "policy/v1beta1" } else { "policy/v1" };
        let text = format!(
            "apiVersion: {api}\nkind: PodDisruptionBudget\nmetadata: {{name: web-{number}, namespace: shop}}\nspec:\n  \
             minAvailable: 1\n  selector: {{matchLabels: {{app: web-{number}}}}}\n"
        );
        std::fs::write(folder.join(format!("web-{number}.yaml")), text)?;
    }
    let program = std::env::current_exe()?;
    let check = || -> anyhow::Result<String> {
        let folder = folder.to_string_lossy().into_owned();
        let output = std::process::Command::new(&program).args([PROGRAM_VERB, &folder]).output()?;
        ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let found = check()?.matches("\"removed\"").count();
    report.compare(format!("{found} objects of APIs that go"), found == OBJECTS / 1000);
    let (expectation, observation) = draining();
    let refused = forecast(&expectation, &observation)?;
    report.compare(format!("{refused} budgets that refuse"), refused == PODS / OF_BUDGET / 2);
    let (mut apis, mut drains) = (Vec::new(), Vec::new());
    for _ in 0..environment.rounds {
        apis.push(ours(check)?.0);
        drains.push(ours(|| forecast(&expectation, &observation))?.0);
    }
    report.at_most("check apis", median(&apis, |sample| sample.wall), Duration::from_millis(500));
    report.at_most("forecast", median(&drains, |sample| sample.wall), Duration::from_secs(1));
    report.row("stepgate check apis, a process", apis);
    report.row("drains, room and addresses forecast", drains);
    Ok(report)
}

/// `stepgate check apis` over a folder, whatever it finds.
pub fn program(arguments: &[String]) -> anyhow::Result<()> {
    let own = ["stepgate", "check", "apis", "--target", "1.36", "-o", "json"].into_iter();
    let _ = stepgate::cli::main(own.chain(arguments.iter().map(String::as_str)).map(Into::into));
    Ok(())
}

/// How many budgets let none go.
fn forecast(expectation: &ChecksExpectation, observation: &Observation) -> anyhow::Result<usize> {
    let outcomes = outcomes(expectation, observation);
    let drains = outcomes.iter().find(|outcome| outcome.check == CheckName::Drains);
    let findings = drains.map(|outcome| outcome.findings.as_slice()).unwrap_or_default();
    Ok(findings.iter().filter(|finding| finding.status == CheckStatus::Fail).count())
}

/// Nodes of a group that goes, and its pods: half of the budgets let none go.
fn draining() -> (ChecksExpectation, Observation) {
    let requests = Resources { addresses: 1, ..Resources::default() };
    let budget_of = |number: usize| number / OF_BUDGET;
    let pod = |number: usize| EvictedPod {
        namespace: "shop".to_owned(),
        name: format!("web-{number}"),
        node: format!("node-{}", number % NODES),
        has_controller: true,
        ready: true,
        local_data: false,
        drain_ends: false,
        grace: 30,
        requests,
        budgets: vec![format!("budget-{}", budget_of(number))],
    };
    let budget = |number: usize| DisruptionBudget {
        namespace: "shop".to_owned(),
        name: format!("budget-{number}"),
        expected: 10,
        healthy: 10,
        desired: if number.is_multiple_of(2) { 10 } else { 9 },
        allowed: u32::from(number % 2 == 1),
        always_allows_unhealthy: false,
        is_stale: false,
        refuses_since: None,
    };
    let room = |number: usize| NodeRoom {
        node: format!("node-{number}"),
        group: Some("ng-1-31".to_owned()),
        instance_type: Some("m5.large".to_owned()),
        takes_pods: true,
        allocatable: Resources { addresses: 29, ..Resources::default() },
        used: Resources::default(),
        kept: Resources::default(),
    };
    let inspection = Inspection {
        evicted: (0..PODS).map(pod).collect(),
        budgets: (0..PODS / OF_BUDGET).map(budget).collect(),
        rooms: (0..NODES).map(room).collect(),
        ..Inspection::default()
    };
    let count = u32::try_from(NODES).unwrap_or(u32::MAX);
    let by = NewGroup {
        name: "ng-1-32".to_owned(),
        instance_types: vec!["m5.large".to_owned()],
        desired: count,
        most: count,
    };
    let replaced_groups = vec![ReplacedGroup { name: "ng-1-31".to_owned(), by: Some(by) }];
    let expectation = ChecksExpectation { replaced_groups, ..ChecksExpectation::default() };
    let observation = Observation { inspection: Some(inspection), ..Observation::empty(Timestamp::UNIX_EPOCH) };
    (expectation, observation)
}
