//! P11: what is looked for before a rollout begins: APIs that go, in 10,000 objects, and what keeps 1,000 nodes with 30,000
//! pods from being drained. How much is found is known by how the inputs are made.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use policy::CheckName;
use rollout::check::{CheckStatus, outcomes};
use rollout::{
    ChecksExpectation, DisruptionBudget, EvictedPod, Inspection, NewGroup, NodeRoom, Observation, ReplacedGroup,
    Resources,
};
use serde_json::Value;

use crate::Environment;
use crate::measure::{ours, peer, quoted};
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
    let (bytes, gone) = written(&folder)?;
    report.notes.push(format!("the objects are {} kB of YAML", bytes / 1000));
    let program = std::env::current_exe()?;
    let script = format!("{} {PROGRAM_VERB} {}", quoted(&program), quoted(&folder));
    let check = || peer(environment.scratch.path(), &script);
    let said: Value = serde_json::from_str(&check()?.1)?;
    report.compare(
        format!("{OBJECTS} objects are looked at"),
        said.get("objects").is_some_and(|objects| *objects == OBJECTS),
    );
    let uses = said.get("uses").and_then(Value::as_array).context("no list of uses")?;
    let removed =
        uses.iter().filter(|found| found.get("standing").is_some_and(|standing| standing == "removed")).count();
    report.compare(format!("{removed} objects of APIs that go"), removed == gone && uses.len() == gone);
    let (expectation, observation) = draining();
    let refused = forecast(&expectation, &observation)?;
    report.compare(format!("{refused} budgets that refuse"), refused == PODS / OF_BUDGET / 2);
    let (mut apis, mut drains) = (Vec::new(), Vec::new());
    for _ in 0..environment.rounds {
        apis.push(check()?.0);
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

/// Applications of five objects each, in a file each and a hundred in a folder, as fleets have them: how many bytes they are, and
/// how many objects are of APIs that go.
fn written(folder: &Path) -> anyhow::Result<(usize, usize)> {
    let mut random = fastrand::Rng::with_seed(34);
    let (mut bytes, mut gone) = (0, 0);
    for number in 0..OBJECTS / 5 {
        let namespace = format!("team-{}", number / 100);
        let into = folder.join(&namespace);
        fs::create_dir_all(&into)?;
        let metadata =
            format!("metadata:\n  name: web-{number}\n  namespace: {namespace}\n  labels: {{app: web-{number}}}\n");
        let selector = format!("    matchLabels:\n      app: web-{number}\n");
        // One in two hundred is left from long ago.
        let mut api = |old: &'static str, new: &'static str| {
            let is_old = random.u32(..200) == 0;
            gone += usize::from(is_old);
            if is_old { old } else { new }
        };
        let (budget, scaler, job) = (
            api("policy/v1beta1", "policy/v1"),
            api("autoscaling/v2beta2", "autoscaling/v2"),
            api("batch/v1beta1", "batch/v1"),
        );
        let mut text = format!(
            "apiVersion: apps/v1\nkind: Deployment\n{metadata}spec:\n  replicas: 3\n  selector:\n{selector}  template:\n    \
             metadata:\n      labels:\n        app: web-{number}\n    spec:\n      containers:\n"
        );
        for container in ["web", "proxy"] {
            write!(
                text,
                "      - name: {container}\n        image: registry.example.com/{container}:1.{number}\n        env:\n"
            )?;
            for variable in 0..random.usize(4..16) {
                write!(text, "        - name: SETTING_{variable}\n          value: \"{}\"\n", random.u64(..))?;
            }
            text.push_str("        resources:\n          requests: {cpu: 100m, memory: 128Mi}\n");
        }
        write!(text, "---\napiVersion: v1\nkind: ConfigMap\n{metadata}data:\n  settings.yaml: |\n")?;
        for setting in 0..random.usize(8..40) {
            writeln!(text, "    setting{setting}: {}", random.u64(..))?;
        }
        write!(
            text,
            "---\napiVersion: {budget}\nkind: PodDisruptionBudget\n{metadata}spec:\n  minAvailable: 1\n  selector:\n{selector}\
             ---\napiVersion: {scaler}\nkind: HorizontalPodAutoscaler\n{metadata}spec:\n  minReplicas: 3\n  maxReplicas: 9\n  \
             scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web-{number}}}\n\
             ---\napiVersion: {job}\nkind: CronJob\n{metadata}spec:\n  schedule: \"0 3 * * *\"\n  jobTemplate:\n    spec:\n      \
             template:\n        spec:\n          restartPolicy: Never\n          containers:\n          - {{name: tidy, image: tidy:1}}\n"
        )?;
        bytes += text.len();
        fs::write(into.join(format!("web-{number}.yaml")), text)?;
    }
    Ok((bytes, gone))
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
