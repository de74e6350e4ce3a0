//! The text of a pull request: that of the proposals on its branch, as one. It follows from the proposed commits, from what is missing now, and
//! from the text before it, so that it stays as long as these do.

use domain::ClusterName;

use crate::text::body::{CHANGES, EDITS, LOST, NOTES, OBJECTS, ONE_WAY, RISKS, folded};
use crate::text::sections::Sections;
use crate::text::truncate::{ELSEWHERE, LONGEST, cell, fitting, shared, shortened};

/// How many lines of what has changed since it was opened are kept.
const CHANGES_KEPT: usize = 20;

/// The longest line of those, in characters.
const LONGEST_LINE: usize = 300;

/// What the lines stand between that tell what has changed.
const SINCE: (&str, &str) = ("<!-- stepgate:since -->\n", "<!-- stepgate:until -->\n");

/// What the text of a pull request tells besides the proposal.
const COMMANDS: &str = "\nHere, closing this rejects it, and `/stepgate approve`, `hold`, `resume`, `retry` or `plan` at the beginning of a line of a \
     comment is done for\nwhoever may write in this repository.\n";

/// The same where there are several clusters.
const NAMES: &str = "Names of clusters after the command make it about these alone: `/stepgate hold NAME` lets the others be merged without it.\n";

/// What is said where people changed the branch.
const EDITED: &str =
    "**People have changed this branch.** What they changed is not approved with it: merged, it stops the cluster.\n\n";

/// What they can do.
const TAKE_BACK: &str = "\nTake it back on the branch (`git revert`), or delete the branch: it is proposed anew. What is wanted belongs into the source branch.\n\n";

/// As much of a text as tells what they changed, in bytes.
const EDITS_ROOM: usize = 6_000;

/// As much of a text as the check list may have, in bytes.
const CHECK_LIST_ROOM: usize = 8_000;

/// A box of the check list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLine {
    /// Whether evidence or somebody has ticked it.
    pub is_ticked: bool,
    /// What it says, and who ticked it.
    pub text: String,
}

/// What is proposed for one cluster.
pub struct Proposed<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// Its `proposal.md`.
    pub text: String,
    /// Whether it may be merged, for a cell of a table.
    pub readiness: String,
}

/// Everything that a text is made of.
pub struct Content<'a> {
    /// What is asked, for all clusters together.
    pub title: &'a str,
    /// The branch, and the one that it is merged into.
    pub branches: (&'a str, &'a str),
    /// What is proposed, in the order of the clusters.
    pub proposed: &'a [Proposed<'a>],
    /// What people changed, an entry each.
    pub edits: &'a [String],
    /// What is looked at before it is approved, a line each; none where the policy has no check list.
    pub check_list: &'a [CheckLine],
    /// What has changed since it was opened, a line each, the newest last.
    pub since: &'a [String],
    /// What it shows, for ourselves: sealed marks.
    pub marks: &'a str,
}

impl Content<'_> {
    /// The text as a forge gets it.
    pub fn text(&self) -> String {
        let since = since_text(self.since);
        let marks = format!("\n{}", self.marks);
        let edited = edits_text(self.edits);
        let check_list = check_list_text(self.check_list);
        let room = LONGEST.saturating_sub(since.len() + marks.len() + edited.len() + check_list.len());
        let visible = match self.proposed {
            [one] if one.text.len() + COMMANDS.len() <= room => format!("{}{COMMANDS}", one.text),
            many => self.of_many(many, room),
        };
        format!("{edited}{since}{check_list}{visible}{marks}")
    }

    /// Risks first, then the table; what does not fit is left out from the end, and counted.
    fn of_many(&self, proposed: &[Proposed<'_>], room: usize) -> String {
        let (branch, base) = self.branches;
        let read: Vec<(&Proposed<'_>, Sections)> = proposed.iter().map(|it| (it, Sections::read(&it.text))).collect();
        let mut text = format!("# {}\n\n", self.title);
        let of_all = |section: fn(&Sections) -> &Vec<String>, room: usize, what: &str| {
            let lines = read
                .iter()
                .flat_map(|(it, sections)| section(sections).iter().map(|line| (line.as_str(), it.cluster.as_str())));
            shared(lines, room, what)
        };
        text.push_str(&under(ONE_WAY, &of_all(|sections| &sections.one_way, room / 6, "lines")));
        text.push_str(&under(RISKS, &of_all(|sections| &sections.risks, room / 6, "lines")));
        text.push_str(&under(LOST, &of_all(|sections| &sections.lost, room / 12, "lines")));
        text.push_str(&under(EDITS, &of_all(|sections| &sections.edits, room / 12, "changes")));
        let end = format!(
            "\n## What to do\n\nMerging `{branch}` into `{base}` approves and commits this for every cluster above; `stepgate approve CLUSTER --yes` does it \
             for one.\nEach cluster's gate is watched from then on. `stepgate reject CLUSTER --reason TEXT --yes` keeps one from being asked again for its \
             plan,\nand the others stay. To undo a merged stage, put the previous version into the source branch. When source, policy or a \
             cluster move so\nthat its commit would be another one, its row is void and asked anew; the rows that stay keep what was said of \
             them.\n{COMMANDS}{NAMES}"
        );
        text.push_str(&format!(
            "\n## {CHANGES}\n\n| cluster | stage | component | current | next | change | approval |\n| --- | --- | --- | --- | --- | --- | --- |\n"
        ));
        let rows = read.iter().flat_map(|(it, sections)| {
            let rows =
                sections.rows.iter().map(move |row| format!("| {} {row} {} |\n", it.cluster, cell(&it.readiness)));
            let plain = sections.rows.is_empty();
            rows.chain(plain.then(|| format!("| {} | - | - | - | - | - | {} |\n", it.cluster, cell(&it.readiness))))
        });
        let left = room.saturating_sub(text.len() + end.len() + 400);
        text.push_str(&fitting(rows, left * 3 / 4, &format!("rows: {ELSEWHERE}")));
        text.push_str(&under(NOTES, &of_all(|sections| &sections.notes, room / 20, "addresses")));
        let plans = read.iter().map(|(it, sections)| format!("- {}: {}\n", it.cluster, sections.plan));
        let left = room.saturating_sub(text.len() + end.len() + 200);
        text.push_str("\n## Plans\n\n");
        text.push_str(&fitting(plans, left / 2, "clusters"));
        let facts = read.iter().flat_map(|(it, sections)| {
            sections.evidence.iter().map(|fact| format!("- {}: {fact}\n", it.cluster)).collect::<Vec<_>>()
        });
        let left = room.saturating_sub(text.len() + end.len() + 600);
        let facts = fitting(facts, left / 3, &format!("lines: {ELSEWHERE}"));
        text.push_str(&under("What the gates before them saw", &facts));
        // Last of all, since it is the longest, and folded.
        let left = room.saturating_sub(text.len() + end.len() + 600);
        let objects = of_all(|sections| &sections.objects, left, "objects");
        if !objects.is_empty() {
            text.push_str(&under(OBJECTS, &folded("Objects and their fields, of all clusters", &objects)));
        }
        shortened(text + &end, room)
    }
}

fn edits_text(edits: &[String]) -> String {
    if edits.is_empty() {
        return String::new();
    }
    let lines = edits.iter().map(|entry| format!("- {entry}\n"));
    format!("{EDITED}{}{TAKE_BACK}", fitting(lines, EDITS_ROOM, "changes: the branch has them"))
}

fn check_list_text(lines: &[CheckLine]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let told = lines.iter().map(|line| {
        let text: String =
            line.text.chars().map(|it| if it.is_control() { ' ' } else { it }).take(LONGEST_LINE).collect();
        format!("- [{}] {text}\n", if line.is_ticked { "x" } else { " " })
    });
    let told = fitting(told, CHECK_LIST_ROOM, "boxes");
    format!("**Check list** (`/stepgate tick NAME` in a comment ticks a box, and says who did):\n\n{told}\n")
}

/// A section, where there is anything to say.
fn under(heading: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n## {heading}\n\n{text}") }
}

/// What a text tells of what has changed since it was opened.
pub fn since(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n");
    let lines = text.split_once(SINCE.0).and_then(|(_, rest)| rest.split_once(SINCE.1)).map_or("", |(lines, _)| lines);
    lines.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

fn since_text(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let first = lines.len().saturating_sub(CHANGES_KEPT);
    let lines = lines.iter().skip(first).map(|line| {
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_LINE).collect();
        format!("- {line}\n")
    });
    format!("**What has changed since it was opened:**\n\n{}{}{}\n", SINCE.0, lines.collect::<String>(), SINCE.1)
}

/// Whether a forge holds this text, whatever it does to line ends.
pub fn same_text(there: &str, ours: &str) -> bool {
    there.replace("\r\n", "\n").trim_end() == ours.trim_end()
}

#[cfg(test)]
mod tests {
    use domain::{CommitId, PlanDigest};

    use super::*;
    use crate::MetadataSigner;
    use crate::metadata::{Place, PullRequestMetadata};
    use crate::text::body::EVIDENCE;

    fn proposal(cluster: &str, rows: usize) -> String {
        let row = |number: usize| format!("| capi | provider-{number} | v1.{number} | v1.{} | minor |\n", number + 1);
        let object = |number: usize| format!("- changed Deployment `n/d-{number}`\n  - `spec.image`: `a` → `b`\n");
        format!(
            "# {cluster}: capi\n\nRollout abc of source commit 123, plan sha256:{cluster}.\n\n## {ONE_WAY}\n\n- capi: storage version of a\n\n## {RISKS}\n\n\
             - capi: it takes {cluster} long\n\n## {CHANGES}\n\n| stage | component | current | next | change |\n| --- | --- | --- | --- | --- |\n{}\n## \
             {NOTES}\n\n- https://example.com/v1\n\n## {OBJECTS}\n\n{}\n## {EVIDENCE}\n\n- Deployment x: 2 of 2\n\n## What to do\n\n- nothing\n",
            (0..rows).map(row).collect::<String>(),
            folded("3 objects", &(0..rows).map(object).collect::<String>())
        )
    }

    fn text(names: &[String], rows: usize, readiness: &str, since: &[String]) -> String {
        text_with(names, rows, readiness, since, &[])
    }

    fn text_with(names: &[String], rows: usize, readiness: &str, since: &[String], check_list: &[CheckLine]) -> String {
        let clusters: Vec<ClusterName> = names.iter().map(|name| name.parse().unwrap()).collect();
        let proposed: Vec<Proposed<'_>> = clusters
            .iter()
            .map(|cluster| Proposed {
                cluster,
                text: proposal(cluster.as_str(), rows),
                readiness: readiness.to_owned(),
            })
            .collect();
        let head: CommitId = "1".repeat(40).parse().unwrap();
        let plan = PlanDigest::of([b"x".as_slice()]);
        let marks = PullRequestMetadata::default().shown(
            Place::After(0),
            &head,
            clusters.iter().map(|cluster| (cluster, &plan)),
            0,
        );
        let sealed = marks.sealed("stepgate/prod/capi", &MetadataSigner::new(&"secret".into(), "a/b"));
        let branches = ("stepgate/prod/capi", "deploy");
        let content = Content {
            title: "prod: capi",
            branches,
            proposed: &proposed,
            edits: &[],
            check_list,
            since,
            marks: &sealed,
        };
        let text = content.text();
        assert!(PullRequestMetadata::read(&text) == marks && text.contains(&sealed), "marks are never cut off");
        assert_eq!(super::since(&text), since);
        assert!(text.len() <= LONGEST, "{}", text.len());
        text
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("cluster-{number:03}")).collect()
    }

    #[test]
    fn many_clusters_are_one_table_with_risks_first() {
        let text = text(&names(3), 2, "0 of 2 approvals | x", &["cluster-002 is asked for as well".to_owned()]);
        for wanted in [
            "## There is no way back from\n\n- cluster-000, cluster-001, cluster-002: capi: storage version of a\n",
            "- cluster-001: capi: it takes cluster-001 long\n",
            "| cluster-001 | capi | provider-1 | v1.1 | v1.2 | minor | 0 of 2 approvals \\| x |\n",
            "- cluster-002: Rollout abc of source commit 123, plan sha256:cluster-002\n",
            "- cluster-002: Deployment x: 2 of 2\n",
            "## Release notes\n\n- cluster-000, cluster-001, cluster-002: https://example.com/v1\n",
            "<details>",
            "- cluster-000, cluster-001, cluster-002: changed Deployment `n/d-1`\n  - `spec.image`: `a` → `b`\n",
            "What has changed since it was opened",
            "Merging `stepgate/prod/capi` into `deploy`",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
        assert!(text.find(ONE_WAY) < text.find(CHANGES) && text.matches("provider-0").count() == 3, "{text}");
    }

    #[test]
    fn a_check_list_says_what_is_ticked_and_how_the_rest_is() {
        let line = |is_ticked: bool, text: &str| CheckLine { is_ticked, text: text.to_owned() };
        let lines = [line(true, "check drains: pass"), line(false, "alerts: no alert is new\n- [x] forged")];
        let text = text_with(&names(1), 2, "ready", &[], &lines);
        let list = "- [x] check drains: pass\n- [ ] alerts: no alert is new - [x] forged\n";
        assert!(text.contains(list) && text.contains("`/stepgate tick NAME`"), "{text}");
    }

    #[test]
    fn one_cluster_reads_as_its_proposal() {
        let text = text(&names(1), 2, "ready", &[]);
        assert!(text.starts_with(&proposal("cluster-000", 2)), "{text}");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_rest_is_whole() {
        for (count, rows) in [(100, 3), (100, 40), (400, 20), (1, 5000)] {
            let text = text(&names(count), rows, "ready", &vec!["x".repeat(LONGEST_LINE); CHANGES_KEPT]);
            let whole = count * rows <= 300;
            assert_eq!(whole, !text.contains('…'), "{count} {rows}");
            if count > 1 {
                assert!(text.contains("## What to do") && text.contains("/stepgate approve"), "{count} {rows}\n{text}");
                let table = text.lines().filter(|line| line.starts_with("| cluster-")).count();
                assert!(whole == (table == count * rows) && table > 50, "{table} rows for {count} {rows}");
                assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|')));
            }
        }
    }
}
