//! What people are asked, as Markdown that also reads well as plain text. The same proposal gives the same text.

use domain::CommitId;
use rollout::{ApprovalScope, ComponentChange, Ledger, Plan, RiskGroup, StageId, StagePlan, StageState, risk_groups};

use crate::take_up::taken_up;
use crate::text::notes::release_notes;
use crate::text::objects::changed;
use crate::text::truncate::{self, cell, fitting};
use domain::BranchName;
use planning::stage_tree::StageTree;

/// How much of a text tells what changes, object by object, in bytes.
const OBJECTS_ROOM: usize = 24_000;

/// How much of it tells what people changed of that.
const EDITS_ROOM: usize = 6_000;

/// Headings of the text, by which the text of a pull request takes it apart.
pub const ONE_WAY: &str = "There is no way back from";
/// Heading of the risks.
pub const RISKS: &str = "Risks";
/// Heading of what the proposal no longer contains.
pub const LOST: &str = "Not part of this any more";
/// Heading of the edits that people made.
pub const EDITS: &str = "Changed by people";
/// Heading of the changed components.
pub const CHANGES: &str = "Changes";
/// Heading of the release notes.
pub const NOTES: &str = "Release notes";
/// Heading of the changed objects.
pub const OBJECTS: &str = "What changes, object by object";
/// Heading of the evidence of the gate before.
pub const EVIDENCE: &str = "What the gate before it saw";

/// What is asked for one cluster.
pub struct Asked<'a> {
    /// What is asked for.
    pub scope: &'a ApprovalScope,
    /// The stage that is asked for first.
    pub stage: &'a StageId,
    /// The commit of the source branch that it is rendered from.
    pub source: &'a CommitId,
    /// As it would be once it has landed.
    pub ledger: &'a Ledger,
}

/// The text of a proposal. `lost` is what lay on its branch and is not part of it.
pub fn text(
    plan: &Plan,
    asked: &Asked<'_>,
    parts: &[StageTree],
    (branch, deploy): (&BranchName, &BranchName),
    lost: &[String],
) -> String {
    let stages: Vec<&StagePlan> = match asked.scope {
        ApprovalScope::Stage(stage) => plan.stages.iter().filter(|known| &known.stage == stage).collect(),
        ApprovalScope::Rollout => plan.stages.iter().filter(|stage| stage.state == StageState::Pending).collect(),
    };
    let title = match asked.scope {
        ApprovalScope::Stage(stage) => format!("{}: {stage}", plan.cluster),
        ApprovalScope::Rollout => format!("{}: the whole rollout", plan.cluster),
    };
    let mut text =
        format!("# {title}\n\nRollout {} of source commit {}, plan {}.\n", plan.rollout_id, asked.source, plan.digest);
    if let Some(chain) = &plan.chain {
        text.push_str(&format!("\nIt is {chain}.\n"));
    }
    if let Some(back) = &plan.rollback {
        let reason = back.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        text.push_str(&format!("\nIt goes back to {back}, as {} wanted it{reason}.\n", back.by));
    }
    list(&mut text, ONE_WAY, stages.iter().flat_map(|stage| named(stage, &stage.one_way)));
    let risks = risk_groups(stages.iter().copied());
    list(&mut text, RISKS, risks.iter().map(RiskGroup::line));
    list(&mut text, LOST, lost.iter().cloned());
    let edits: Vec<String> =
        parts.iter().flat_map(|part| taken_up(part, &plan.edits)).map(|edit| format!("- {edit}\n")).collect();
    if !edits.is_empty() {
        let entries = fitting(edits.into_iter(), EDITS_ROOM, "changes: the commit has them");
        text.push_str(&format!("\n## {EDITS}\n\n{entries}"));
    }
    let rows: String = stages.iter().flat_map(|stage| stage.changes.iter().map(|change| row(stage, change))).collect();
    text.push_str(&format!("\n## {CHANGES}\n\n"));
    if rows.is_empty() {
        text.push_str("No component has another version.\n");
    } else {
        text.push_str("| stage | component | current | next | change |\n| --- | --- | --- | --- | --- |\n");
        text.push_str(&rows);
    }
    let parts: Vec<&StageTree> =
        parts.iter().filter(|part| stages.iter().any(|stage| stage.stage == part.stage)).collect();
    let notes = release_notes(stages.iter().copied(), parts.iter().map(|part| &part.after));
    list(&mut text, NOTES, notes.into_iter());
    let objects: Vec<String> = parts.iter().flat_map(|part| changed(&part.before, &part.after)).collect();
    if !objects.is_empty() {
        let count = objects.len();
        let lines = objects.into_iter().map(|object| format!("- {object}\n"));
        let entries = fitting(lines, OBJECTS_ROOM, "objects: the commit has them");
        let summary = if count == 1 { "1 object".to_owned() } else { format!("{count} objects") };
        text.push_str(&format!("\n## {OBJECTS}\n\n{}", folded(&summary, &entries)));
    }
    let evidence = asked.ledger.last_record(asked.stage).and_then(|record| record.opened_by.as_ref());
    let facts = evidence.into_iter().flat_map(|evidence| &evidence.facts);
    list(&mut text, EVIDENCE, facts.map(|fact| format!("{}: {}", fact.object, fact.seen)));
    let then = match asked.scope {
        ApprovalScope::Stage(_) => "The next stage is proposed once its gate has passed.",
        ApprovalScope::Rollout => "Its later stages follow by themselves, each once the gate before it has passed.",
    };
    text.push_str(&format!(
        "\n## What to do\n\nMerging `{branch}` into `{deploy}` approves and commits it, with what is proposed there for other clusters\n\
         (`stepgate approve {cluster} --yes`: this alone). {then} Its gate \
         is watched from then on.\n`stepgate reject {cluster} --reason TEXT --yes` keeps it from being asked again for this plan. To undo a \
         merged stage, put the previous version\ninto the source branch. When source, policy or cluster move so that the commit would be \
         another one, this is void and asked anew.\n",
        cluster = plan.cluster
    ));
    text
}

fn row(stage: &StagePlan, change: &ComponentChange) -> String {
    let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "-".to_owned());
    let cells = [
        stage.stage.to_string(),
        change.component.clone(),
        version(&change.old_version),
        version(&change.new_version),
        change.class.to_string(),
    ];
    format!("| {} |\n", cells.map(|text| cell(&text)).join(" | "))
}

/// Folded on a forge, and readable where it is not.
pub fn folded(summary: &str, text: &str) -> String {
    format!("<details>\n<summary>{summary}</summary>\n\n{text}\n</details>\n")
}

fn named<'a>(stage: &'a StagePlan, lines: &'a [String]) -> impl Iterator<Item = String> + 'a {
    lines.iter().map(|line| format!("{}: {line}", stage.stage))
}

fn list(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|line| format!("- {}\n", truncate::line(&line))).collect();
    if !lines.is_empty() {
        text.push_str(&format!("\n## {heading}\n\n{}", lines.concat()));
    }
}
