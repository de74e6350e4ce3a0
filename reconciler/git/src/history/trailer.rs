//! The trailers by which a commit of ours says which stage it is.

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

impl StageTrailers {
    /// Reads the trailers of a commit message: all five in its last paragraph, each once and well-formed. A message
    /// with some of them, or with one twice, is not ours.
    pub fn parse(message: &str) -> Option<Self> {
        let paragraph = last_paragraph(message)?;
        let one = |key: &str| {
            let mut values = paragraph.lines().filter_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim_end() == key).then(|| value.trim())
            });
            let value = values.next()?;
            values.next().is_none().then_some(value)
        };
        Some(Self {
            rollout: one(ROLLOUT)?.parse().ok()?,
            cluster: one(CLUSTER)?.parse().ok()?,
            stage: one(STAGE)?.parse().ok()?,
            plan: one(PLAN)?.parse().ok()?,
            source: one(SOURCE)?.parse().ok()?,
        })
    }
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
            assert_eq!(StageTrailers::parse(&message), None, "{message}");
        }
    }
}
