//! The trailers by which a commit of ours says which stage it is, of one cluster or of several.

use std::collections::HashSet;
use std::fmt;

use domain::{ClusterName, CommitId, PlanDigest, RolloutId};
use rollout::StageId;

/// Which stage of which rollout a commit on the deploy branch is. Written as git trailers (git-interpret-trailers(1)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTrailers {
    /// `Stepgate-Rollout`: the rollout.
    pub rollout: RolloutId,
    /// `Stepgate-Cluster`: the cluster whose directory the commit changes.
    pub cluster: ClusterName,
    /// `Stepgate-Stage`: the stage.
    pub stage: StageId,
    /// `Stepgate-Plan`: the plan that was carried out.
    pub plan: PlanDigest,
    /// `Stepgate-Source`: the commit on the source branch that asked for it.
    pub source: CommitId,
}

const ROLLOUT: &str = "Stepgate-Rollout";
const CLUSTER: &str = "Stepgate-Cluster";
const STAGE: &str = "Stepgate-Stage";
const PLAN: &str = "Stepgate-Plan";
const SOURCE: &str = "Stepgate-Source";

/// Every key, in the order in which they are written.
const KEYS: [&str; 5] = [ROLLOUT, CLUSTER, STAGE, PLAN, SOURCE];

impl StageTrailers {
    /// Reads the trailers of a commit that is one stage: all five in the last paragraph of its message, each once and well-formed. A message with
    /// some of them, or with those of several clusters, is not one stage.
    pub fn parse(message: &str) -> Option<Self> {
        let mut all = Self::parse_all(message);
        all.pop().filter(|_| all.is_empty())
    }

    /// As [`StageTrailers::parse`], of a commit that may be a stage of several clusters: the five of each cluster then come one after the other, as
    /// they are written, and no cluster comes twice. None where that is not so.
    pub fn parse_all(message: &str) -> Vec<Self> {
        let lines = last_paragraph(message).into_iter().flat_map(str::lines).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let place = KEYS.iter().position(|key| *key == name.trim_end())?;
            Some((place, value.trim()))
        });
        let mut lines: Vec<(usize, &str)> = lines.collect();
        // People may have sorted the only ones.
        if lines.len() == KEYS.len() {
            lines.sort_by_key(|(place, _)| *place);
        }
        let read = |group: &[(usize, &str)]| {
            let [(0, rollout), (1, cluster), (2, stage), (3, plan), (4, source)] = group else { return None };
            Some(Self {
                rollout: rollout.parse().ok()?,
                cluster: cluster.parse().ok()?,
                stage: stage.parse().ok()?,
                plan: plan.parse().ok()?,
                source: source.parse().ok()?,
            })
        };
        let all: Option<Vec<Self>> = lines.chunks(KEYS.len()).map(read).collect();
        let all = all.unwrap_or_default();
        let clusters: HashSet<&ClusterName> = all.iter().map(|one| &one.cluster).collect();
        if clusters.len() == all.len() { all } else { Vec::new() }
    }

    /// Whether a message that was read as `all` is as we wrote it, and not one that several of ours were put together in.
    pub(super) fn are_all(all: &[Self], message: &str) -> bool {
        let begins = match all {
            [] => false,
            [one] => message.strip_prefix(one.cluster.as_str()).is_some_and(|rest| rest.starts_with(": ")),
            several => message.starts_with(&together(several.len())),
        };
        begins && message.matches(CLUSTER).count() == all.len()
    }
}

/// How the message of a commit begins that is a stage of so many clusters.
fn together(clusters: usize) -> String {
    format!("{clusters} clusters: ")
}

/// The last paragraph, unless it is the subject.
fn last_paragraph(message: &str) -> Option<&str> {
    let message = message.trim_end();
    message.rfind("\n\n").and_then(|at| message.get(at + 2..))
}

impl fmt::Display for StageTrailers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{ROLLOUT}: {}", self.rollout)?;
        writeln!(formatter, "{CLUSTER}: {}", self.cluster)?;
        writeln!(formatter, "{STAGE}: {}", self.stage)?;
        writeln!(formatter, "{PLAN}: {}", self.plan)?;
        writeln!(formatter, "{SOURCE}: {}", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers() -> StageTrailers {
        let plan: PlanDigest = "ab".repeat(32).parse().unwrap();
        StageTrailers {
            rollout: plan.rollout_id(),
            cluster: "mgmt".parse().unwrap(),
            stage: "cilium@v1.18.2-0".parse().unwrap(),
            plan,
            source: "1".repeat(40).parse().unwrap(),
        }
    }

    #[test]
    fn trailers_read_back_from_a_message() {
        let text = trailers().to_string();
        for message in [format!("Subject\n\n{text}"), format!("Subject\n\nBody: with colon\n\n{text}\n\n")] {
            assert_eq!(StageTrailers::parse(&message), Some(trailers()), "{message}");
        }
    }

    #[test]
    fn half_or_doubled_trailers_are_not_ours() {
        let text = trailers().to_string();
        let without = |key: &str| text.lines().filter(|line| !line.starts_with(key)).collect::<Vec<_>>().join("\n");
        for message in [
            String::new(),
            text.clone(),
            format!("Subject\n\n{text}\n\nSigned-off-by: a person"),
            format!("Subject\n\n{text}Stepgate-Stage: workers/md-0\n"),
            format!("Subject\n\n{}", without(SOURCE)),
            format!("Subject\n\n{}", text.replace("mgmt", "../mgmt")),
        ] {
            assert_eq!(StageTrailers::parse_all(&message), [], "{message}");
        }
    }

    #[test]
    fn trailers_of_several_clusters_read_back_and_are_no_single_stage() {
        let two = [trailers(), StageTrailers { cluster: "team-a".parse().unwrap(), ..trailers() }];
        let text: String = two.iter().map(ToString::to_string).collect();
        let message = format!("Subject\n\n{text}");
        assert_eq!(StageTrailers::parse_all(&message), two);
        assert_eq!(StageTrailers::parse(&message), None);
        let sorted = |text: &str| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        let one = format!("Subject\n\n{}", sorted(&trailers().to_string()));
        assert_eq!(StageTrailers::parse(&one), Some(trailers()));
        // Whose is which of these nobody can tell.
        for message in [
            format!("Subject\n\n{}", sorted(&text)),
            format!("Subject\n\n{}{}", trailers(), trailers()),
            format!("Subject\n\n{text}{STAGE}: cilium\n"),
        ] {
            assert_eq!(StageTrailers::parse_all(&message), [], "{message}");
        }
    }
}
