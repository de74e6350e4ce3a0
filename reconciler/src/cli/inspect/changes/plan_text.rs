//! A plan for a person: in short, then stage by stage, then what to look at.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::cli::common::output::Table;
use crate::report::{ChainReport, ChainTargetReport, ChangeReport, ClusterPlan, StageReport};
use rollout::StagePlan;

/// How many columns a plan takes.
const WIDTH: usize = 100;

/// How many characters a list may take in the short part, in about two lines.
const SHORT: usize = 2 * WIDTH - 20;

/// The tables of plans: each in short and in whole, then what is remarked `of_fleet`. `verbose` shows every stage and every risk.
pub(super) fn tables(
    clusters: &[ClusterPlan],
    of_fleet: &BTreeSet<String>,
    verbose: bool,
) -> Vec<(Option<String>, Table)> {
    let shown: Vec<&ClusterPlan> = clusters.iter().filter(|cluster| is_shown_whole(cluster)).collect();
    // Of several plans, none repeats what the others say.
    let none = BTreeSet::new();
    let told_below = if shown.len() > 1 { of_fleet } else { &none };
    let mut tables = Vec::new();
    for cluster in clusters {
        let short = Table { notes: short(cluster), width: Some(WIDTH), ..Table::default() };
        tables.push((Some(title(cluster)), short));
        let whole = whole(cluster, told_below, verbose);
        if !whole.rows.is_empty() || !whole.notes.is_empty() {
            tables.push((None, whole));
        }
    }
    let said = shown.iter().flat_map(|cluster| &cluster.warnings).filter(|text| told_below.contains(*text));
    let mut seen = BTreeSet::new();
    let said: Vec<String> = said.filter(|text| seen.insert(*text)).cloned().collect();
    if !said.is_empty() {
        let notes = remarks(&said, verbose, |_| true);
        tables.push((Some("the whole fleet".to_owned()), Table { notes, width: Some(WIDTH), ..Table::default() }));
    }
    tables
}

/// Whether more is shown of a plan than that there is nothing to do.
fn is_shown_whole(cluster: &ClusterPlan) -> bool {
    cluster.commits > 0 || !cluster.blocked.is_empty()
}

fn title(cluster: &ClusterPlan) -> String {
    match &cluster.rollout_id {
        Some(rollout) if cluster.commits > 0 => {
            format!("{}: rollout {rollout}, {}", cluster.cluster, counted(cluster.commits, "commit"))
        }
        _ if cluster.blocked.is_empty() => format!("{}: nothing to do", cluster.cluster),
        _ => cluster.cluster.clone(),
    }
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What is going to happen.
fn short(cluster: &ClusterPlan) -> Vec<String> {
    let mut lines: Vec<String> = cluster.chain.iter().flat_map(chain).collect();
    if cluster.commits > 0 {
        lines.push(format!("changes: {}", changes(cluster)));
        lines.push(format!("rolls: {}", rolls(cluster)));
        lines.extend(staying(cluster));
        let one_way = to_do(cluster).flat_map(|stage| stage.one_way.iter().map(|text| (stage.name.as_str(), text)));
        let one_way: Vec<String> = one_way.map(|(stage, text)| format!("{stage} ({})", head(text))).collect();
        if !one_way.is_empty() {
            lines.push(format!("no way back: {}", listed(&one_way)));
        }
        lines.extend(approvals(cluster));
        lines.extend(cluster.wave.as_ref().map(|wave| format!("wave: {wave}")));
    }
    if let Some(first) = cluster.blocked.first() {
        lines.push(format!("blocked ({}): {}", first.code, first.message));
        lines.push(format!("  to do: {}", first.help));
        match cluster.blocked.len() - 1 {
            0 => {}
            more => lines.push(format!("  and {more} more, below")),
        }
    }
    let risks: usize = cluster.risk_groups.iter().map(|group| group.count).sum();
    if risks > 0 && cluster.commits > 0 {
        let kinds = match cluster.risk_groups.len() {
            kinds if kinds == risks => String::new(),
            1 => " of one kind".to_owned(),
            kinds => format!(" of {kinds} kinds"),
        };
        lines.push(format!("risks: {risks}{kinds}, below"));
    }
    lines
}

/// The whole way, a line for each rollout.
fn chain(chain: &ChainReport) -> Vec<String> {
    let target = |(index, target): (usize, &ChainTargetReport)| {
        let state = match (index + 1).cmp(&chain.rollout) {
            Ordering::Less => " (done)",
            Ordering::Equal => " (this one)",
            Ordering::Greater => "",
        };
        let groups = target.workers.iter().map(|(group, version)| format!(", {group} at {version}"));
        let rolls = if target.rolls.is_empty() { "no nodes".to_owned() } else { listed(&target.rolls) };
        format!("  {}{state}: {}{}; rolls {rolls}", index + 1, target.told, groups.collect::<String>())
    };
    let first = format!("chain: {}", chain.told);
    std::iter::once(first).chain(chain.targets.iter().enumerate().map(target)).collect()
}

/// The stages that are not done yet.
fn to_do(cluster: &ClusterPlan) -> impl Iterator<Item = &StageReport> {
    cluster.stages.iter().filter(|stage| matches!(stage.state.as_str(), "pending" | "blocked"))
}

/// Kubernetes first, then each component once, from where it is to where it ends.
fn changes(cluster: &ClusterPlan) -> String {
    let mut found: Vec<ChangeReport> = Vec::new();
    for change in to_do(cluster).flat_map(|stage| &stage.changes) {
        let goes_on = |known: &&mut ChangeReport| {
            known.component == change.component
                && (known.new_version == change.old_version
                    || (&known.old_version, &known.new_version) == (&change.old_version, &change.new_version))
        };
        match found.iter_mut().find(goes_on) {
            Some(known) if known.new_version == change.old_version => {
                known.new_version.clone_from(&change.new_version);
            }
            Some(_) => {}
            None => found.push(change.clone()),
        }
    }
    found.sort_by_key(|change| change.component != "kubernetes");
    let texts: Vec<String> = found.iter().map(one_change).collect();
    if texts.is_empty() { "no version; `stepgate diff` shows the files".to_owned() } else { listed(&texts) }
}

fn one_change(change: &ChangeReport) -> String {
    let ChangeReport { component, class, .. } = change;
    match (&change.old_version, &change.new_version) {
        (Some(old), Some(new)) if old != new => format!("{component} {old} to {new} ({class})"),
        (_, Some(version)) | (Some(version), None) => format!("{component} {version} ({class})"),
        (None, None) => format!("{component} ({class})"),
    }
}

/// Which machines, and how long it takes.
fn rolls(cluster: &ClusterPlan) -> String {
    let stages = to_do(cluster).filter(|stage| stage.machines > 0 && !stays(stage));
    let stages: Vec<String> = stages.map(|stage| format!("{} {}", stage.name, stage.machines)).collect();
    let stay: u32 = to_do(cluster).filter(|stage| stays(stage)).map(|stage| stage.machines).sum();
    let rolled = counted(cluster.machines.saturating_sub(stay), "machine");
    let uncounted = to_do(cluster).filter(|stage| stage.uncounted_machines).map(|stage| stage.name.clone());
    let uncounted = uncounted.collect::<Vec<_>>();
    let known = (!stages.is_empty()).then(|| format!("{rolled} ({})", listed(&stages)));
    let open = (!uncounted.is_empty())
        .then(|| format!("all machines of {}, whose number the specification does not tell", listed(&uncounted)));
    let machines = match (known, open) {
        (None, None) => "no machine".to_owned(),
        (Some(known), Some(open)) => format!("{known}, and {open}"),
        (Some(one), None) | (None, Some(one)) => one,
    };
    let Some(time) = &cluster.expected_time else { return machines };
    let (least, day) = (if time.complete { "about" } else { "at least" }, time.ended_at.get(..10).unwrap_or_default());
    format!("{machines}; {least} {} min, as in rollout {} of {day}", time.minutes, time.rollout)
}

/// Whether its machines are upgraded where they are.
fn stays(stage: &StageReport) -> bool {
    stage.reasons.iter().any(|reason| reason.starts_with(StagePlan::IN_PLACE))
}

/// Which machines stay; none where all are replaced.
fn staying(cluster: &ClusterPlan) -> Option<String> {
    let stages: Vec<&StageReport> = to_do(cluster).filter(|stage| stays(stage)).collect();
    let machines: u32 = stages.iter().map(|stage| stage.machines).sum();
    let listed = listed(&stages.iter().map(|stage| format!("{} {}", stage.name, stage.machines)).collect::<Vec<_>>());
    (!stages.is_empty()).then(|| format!("upgrades in place: {} ({listed})", counted(machines, "machine")))
}

/// The first part of a text, as long as it says what it is about.
fn head(text: &str) -> &str {
    // A single word says too little.
    let says = |end: &usize| text.get(..*end).is_some_and(|head| head.contains(' '));
    let end = [": ", " ("].iter().filter_map(|sign| text.find(sign)).filter(says).min();
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// As many as there is room for, the rest counted.
fn listed(items: &[String]) -> String {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 && text.chars().count() + item.chars().count() > SHORT {
            text.push_str(&format!(" and {} more", items.len() - index));
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(item);
    }
    text
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

/// Every stage, and what to look at.
fn whole(cluster: &ClusterPlan, told_below: &BTreeSet<String>, verbose: bool) -> Table {
    let mut table = Table { width: Some(WIDTH), ..Table::default() };
    if !is_shown_whole(cluster) {
        return table;
    }
    table.headers = vec!["STAGE", "STATE", "COMPONENT", "CURRENT", "NEXT", "CHANGE", "MACHINES"];
    for stage in cluster.stages.iter().filter(|stage| verbose || stage.state != "skipped") {
        table.rows.extend(rows(stage));
    }
    if !verbose {
        table.notes.extend(skipped(&cluster.stages));
    }
    for block in cluster.blocked.iter().skip(1) {
        table.notes.push(format!("blocked ({}): {}", block.code, block.message));
        table.notes.push(format!("  to do: {}", block.help));
    }
    let shown = || cluster.stages.iter().filter(|stage| stage.state != "skipped");
    let of_machines =
        |reason: &&String| [StagePlan::IN_PLACE, StagePlan::REPLACE].iter().any(|text| reason.starts_with(text));
    for stage in shown() {
        let told = stage.reasons.iter().filter(of_machines);
        let told = told.chain(&stage.node_time);
        table.notes.extend(told.map(|text| format!("machines ({}): {text}", stage.name)));
    }
    for stage in shown() {
        table.notes.extend(stage.one_way.iter().map(|text| format!("one way ({}): {text}", stage.name)));
    }
    if verbose {
        let risks = shown().flat_map(|stage| stage.risks.iter().map(|text| format!("risk ({}): {text}", stage.name)));
        table.notes.extend(risks);
    } else {
        table.notes.extend(cluster.risk_groups.iter().map(|group| format!("risk: {}", group.text)));
        if cluster.risk_groups.iter().any(|group| group.count > 1) {
            table.notes.push("  `--verbose` shows each risk and stage".to_owned());
        }
    }
    table.notes.extend(remarks(&cluster.warnings, verbose, |text| !told_below.contains(text)));
    table
}

/// Those of the remarks that are told here.
fn remarks(warnings: &[String], verbose: bool, is_told: impl Fn(&String) -> bool) -> Vec<String> {
    let told: Vec<String> = warnings.iter().filter(|text| is_told(text)).cloned().collect();
    let told = if verbose { told } else { grouped(&told) };
    told.into_iter().map(|text| format!("note: {text}")).collect()
}

fn rows(stage: &StageReport) -> Vec<Vec<String>> {
    let machines = match stage.machines {
        _ if stage.uncounted_machines => "?".to_owned(),
        0 => String::new(),
        machines => machines.to_string(),
    };
    let empty = String::new;
    if stage.state == "skipped" || stage.changes.is_empty() {
        let reason = stage.reasons.first().cloned().unwrap_or_default();
        return vec![vec![stage.name.clone(), stage.state.clone(), empty(), empty(), empty(), reason, machines]];
    }
    let row = |(index, change): (usize, &ChangeReport)| {
        let first = |text: &String| if index == 0 { text.clone() } else { String::new() };
        let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            first(&stage.name),
            first(&stage.state),
            change.component.clone(),
            version(&change.old_version),
            version(&change.new_version),
            change.class.clone(),
            first(&machines),
        ]
    };
    stage.changes.iter().enumerate().map(row).collect()
}

/// Stages that are skipped, by reason.
fn skipped(stages: &[StageReport]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for stage in stages.iter().filter(|stage| stage.state == "skipped") {
        let reason = stage.reasons.last().map_or("", String::as_str);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&stage.name),
            None => reasons.push((reason, vec![&stage.name])),
        }
    }
    reasons.into_iter().map(|(reason, names)| format!("skipped: {}: {reason}", names.join(", "))).collect()
}

/// Remarks that say the same of several components, each once.
fn grouped(warnings: &[String]) -> Vec<String> {
    let parts = |text: &String| {
        let (name, said) = text.split_once(": ")?;
        let is_name = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '-');
        is_name.then(|| (name.to_owned(), said.to_owned()))
    };
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, said) in warnings.iter().filter_map(parts) {
        names.entry(said).or_default().push(name);
    }
    let mut told = Vec::new();
    for warning in warnings {
        match parts(warning) {
            None => told.push(warning.clone()),
            // The first of them stands for all.
            Some((_, said)) => told.extend(names.remove(&said).map(|names| format!("{}: {said}", names.join(", ")))),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::BlockReport;

    fn stage(name: &str, state: &str, changes: &[(&str, &str, &str)]) -> StageReport {
        let change = |(component, old, new): &(&str, &str, &str)| ChangeReport {
            component: (*component).to_owned(),
            class: "minor".to_owned(),
            old_version: Some((*old).to_owned()),
            new_version: Some((*new).to_owned()),
        };
        StageReport {
            name: name.to_owned(),
            state: state.to_owned(),
            changes: changes.iter().map(change).collect(),
            reasons: vec!["no difference".to_owned()],
            risks: Vec::new(),
            one_way: Vec::new(),
            machines: 0,
            uncounted_machines: false,
            node_time: None,
            approval: "none".to_owned(),
            approvers: None,
        }
    }

    fn plan(stages: Vec<StageReport>) -> ClusterPlan {
        ClusterPlan {
            cluster: "prod".to_owned(),
            rollout_id: Some("abc".to_owned()),
            source: None,
            chain: None,
            blocked: Vec::new(),
            wave: None,
            warnings: Vec::new(),
            commits: 2,
            machines: 0,
            expected_time: None,
            risk_groups: Vec::new(),
            stages,
        }
    }

    #[test]
    fn versions_on_the_way_are_one_change_and_kubernetes_comes_first() {
        let plan = plan(vec![
            stage("cilium@v1.17.0", "pending", &[("cilium", "v1.16.0", "v1.17.0")]),
            stage("cilium", "pending", &[("cilium", "v1.17.0", "v1.18.0")]),
            stage("control-plane", "pending", &[("kubernetes", "v1.33.1", "v1.34.0")]),
            stage("workers/a", "pending", &[("kubernetes", "v1.33.1", "v1.34.0")]),
            stage("flux", "committed", &[("flux", "v2.6.0", "v2.7.0")]),
        ]);
        assert_eq!(
            short(&plan),
            ["changes: kubernetes v1.33.1 to v1.34.0 (minor), cilium v1.16.0 to v1.18.0 (minor)", "rolls: no machine"]
        );
    }

    #[test]
    fn stages_that_are_skipped_take_one_line_unless_all_is_wanted() {
        let plan = plan(vec![
            stage("capi", "skipped", &[]),
            stage("flux", "skipped", &[]),
            stage("control-plane", "pending", &[("kubernetes", "v1.33.1", "v1.34.0")]),
        ]);
        let brief = whole(&plan, &BTreeSet::new(), false);
        assert_eq!(
            (brief.rows.len(), brief.notes.as_slice()),
            (1, &["skipped: capi, flux: no difference".to_owned()][..])
        );
        assert_eq!(whole(&plan, &BTreeSet::new(), true).rows.len(), 3);
    }

    #[test]
    fn one_remark_about_several_components_is_told_once() {
        let told = grouped(&["a: no bundle".to_owned(), "x/y.yaml:1: left out".to_owned(), "b: no bundle".to_owned()]);
        assert_eq!(told, ["a, b: no bundle", "x/y.yaml:1: left out"]);
    }

    #[test]
    fn what_is_remarked_of_the_fleet_is_told_once_below_several_plans() {
        let with = |remarks: &[&str]| {
            let warnings = remarks.iter().map(|text| (*text).to_owned()).collect();
            ClusterPlan { warnings, ..plan(vec![stage("control-plane", "pending", &[])]) }
        };
        let done = ClusterPlan { commits: 0, ..with(&[]) };
        let notes = |clusters: &[ClusterPlan]| -> Vec<Vec<String>> {
            let tables = tables(clusters, &BTreeSet::from(["of all".to_owned()]), false).into_iter();
            tables.map(|(_, table)| table.notes).filter(|notes| notes.iter().any(|it| it.starts_with("note"))).collect()
        };
        let block =
            BlockReport { code: "no-plan".to_owned(), stage: None, message: String::new(), help: String::new() };
        let broken = ClusterPlan { blocked: vec![block], ..with(&[]) };
        let told = notes(&[broken, with(&["of all", "own"]), done, with(&["of all", "own"])]);
        assert_eq!(told, [vec!["note: own"], vec!["note: own"], vec!["note: of all"]]);
        assert_eq!(notes(&[with(&["of all", "own"])]), [vec!["note: of all", "note: own"]]);
    }

    #[test]
    fn a_list_without_room_counts_what_is_left() {
        let items: Vec<String> = (0..40).map(|number| format!("component-{number}")).collect();
        assert!(listed(&items).ends_with(" and 27 more"), "{}", listed(&items));
    }
}
