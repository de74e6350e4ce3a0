//! What a demonstration tells while it runs: a tree in place on a terminal, lines elsewhere.

use std::io::{IsTerminal as _, Write as _};

use jiff::Timestamp;

use crate::cli::terminal::screen::{self, Screen};
use crate::cli::terminal::tree::{self, Branch};
use crate::demo::DemoEvent;
use crate::reconcile::{ClusterOutcome, ClusterPass, CommittedStage};
use crate::report::ClusterPlan;

/// Where it is told.
pub(super) enum Progress {
    /// On standard error, a line each.
    Lines,
    /// On the terminal, in place.
    Tree(Box<Tree>),
}

/// The clusters as they stand.
#[derive(Default)]
pub(super) struct Tree {
    screen: Screen,
    news: String,
    clusters: Vec<Branch>,
}

impl Progress {
    /// In place where both streams are a terminal, and the report is for people.
    pub(super) fn new(is_for_people: bool) -> Self {
        let is_terminal = screen::size().is_some() && std::io::stderr().is_terminal();
        if is_for_people && is_terminal { Self::Tree(Box::default()) } else { Self::Lines }
    }

    /// Tells an event.
    pub(super) fn tell(&mut self, now: Timestamp, event: &DemoEvent<'_>) {
        match self {
            Self::Lines => line(now, event),
            Self::Tree(tree) => tree.tell(now, event),
        }
    }
}

impl Tree {
    fn tell(&mut self, now: Timestamp, event: &DemoEvent<'_>) {
        match event {
            DemoEvent::Ready { clusters, .. } => {
                let done = |name: &String| Branch { name: name.clone(), state: "done".to_owned(), ..Branch::default() };
                self.clusters = clusters.iter().map(done).collect();
            }
            DemoEvent::Pushed { subject } => self.news = format!("pushed to main: {subject}"),
            DemoEvent::Planned { plan } => self.plan(plan),
            DemoEvent::Committed { cluster, stage } => self.commit(cluster, stage),
            DemoEvent::ClusterProgress { pass } => self.pass(pass),
            DemoEvent::Repaired { cluster, broken } => {
                self.news =
                    format!("{cluster} was broken by `{}` ({}); repaired now", broken.fault, broken.fault.summary());
            }
        }
        let clock = now.strftime("%H:%M:%S");
        let text = format!("{clock}  {}\n\n{}", self.news, tree::drawn(&self.clusters, screen::width()));
        // A terminal that is gone shows nothing.
        drop(self.screen.show(&text));
    }

    fn cluster(&mut self, name: &str) -> Option<&mut Branch> {
        self.clusters.iter_mut().find(|cluster| cluster.name == name)
    }

    fn plan(&mut self, plan: &ClusterPlan) {
        let Some(cluster) = self.cluster(&plan.cluster) else { return };
        let shown = plan.stages.iter().filter(|stage| stage.state != "skipped");
        let stage = |stage: &crate::report::StageReport| Branch {
            name: stage.name.clone(),
            state: stage.state.clone(),
            told: if stage.machines > 0 { format!("{} machines", stage.machines) } else { String::new() },
            ..Branch::default()
        };
        cluster.below = shown.map(stage).collect();
        "waiting".clone_into(&mut cluster.state);
        cluster.told = format!("rollout {}", plan.rollout_id.as_deref().unwrap_or("-"));
    }

    fn commit(&mut self, name: &str, stage: &CommittedStage) {
        let Some(cluster) = self.cluster(name) else { return };
        let committed = stage.stage.to_string();
        let mut before = true;
        for branch in &mut cluster.below {
            if branch.name == committed {
                before = false;
                (if stage.reverted { "reverted" } else { "committed" }).clone_into(&mut branch.state);
            } else if before {
                // Whatever comes first has held, or nothing would have been committed.
                "passed".clone_into(&mut branch.state);
            }
        }
        cluster.why = None;
        "running".clone_into(&mut cluster.state);
    }

    fn pass(&mut self, pass: &ClusterPass) {
        let Some(cluster) = self.cluster(&pass.cluster) else { return };
        pass.outcome.word().clone_into(&mut cluster.state);
        let help = match pass.outcome {
            ClusterOutcome::Held { .. } | ClusterOutcome::Blocked { .. } => pass.outcome.help(),
            _ => None,
        };
        let help = help.map(|help| format!("; what helps: {help}")).unwrap_or_default();
        cluster.why = Some(format!("{}{help}", pass.outcome.message()));
        if pass.outcome == ClusterOutcome::Done {
            cluster.below.clear();
            cluster.why = None;
        }
    }
}

/// Progress, on standard error.
fn line(now: Timestamp, event: &DemoEvent<'_>) {
    let mut stderr = anstream::stderr().lock();
    let clock = now.strftime("%H:%M:%S");
    // Nobody reads a closed standard error.
    let _ = match event {
        DemoEvent::Ready { repository, clusters } => {
            writeln!(
                stderr,
                "{clock}  fleet repository {repository}; clusters {}, recorded as they run",
                clusters.join(", ")
            )
        }
        DemoEvent::Pushed { subject } => writeln!(stderr, "{clock}  pushed to main: {subject}"),
        DemoEvent::Planned { plan } => {
            let mut told = |text: &String| writeln!(stderr, "{clock}  {:<8}   {text}", plan.cluster);
            let rollout = plan.rollout_id.as_deref().unwrap_or("-");
            let heading = format!("rollout {rollout}: {} commits, {} machines", plan.commits, plan.machines);
            let one_way = plan
                .stages
                .iter()
                .flat_map(|stage| stage.one_way.iter().map(move |text| format!("one way ({}): {text}", stage.name)));
            let risks = plan.risk_groups.iter().map(|group| format!("risk: {}", group.text));
            let blocks = plan.blocked.iter().map(|block| format!("blocked: {}", block.message));
            std::iter::once(heading).chain(blocks).chain(one_way).chain(risks).try_for_each(|text| told(&text))
        }
        DemoEvent::Committed { cluster, stage } => {
            let word = if stage.reverted { "reverted" } else { "committed" };
            let commit: String = stage.commit.as_str().chars().take(12).collect();
            writeln!(
                stderr,
                "{clock}  {cluster:<8} {word} {} ({commit}), opened by {} facts",
                stage.stage,
                stage.evidence.len()
            )
        }
        DemoEvent::ClusterProgress { pass } => {
            let stage = pass.outcome.stage().map(|stage| format!(" at {stage}")).unwrap_or_default();
            let line = writeln!(
                stderr,
                "{clock}  {:<8} {}{stage}: {}",
                pass.cluster,
                pass.outcome.word(),
                pass.outcome.message()
            );
            match (&pass.outcome, pass.outcome.help()) {
                (ClusterOutcome::Held { .. } | ClusterOutcome::Blocked { .. }, Some(help)) => {
                    line.and_then(|()| writeln!(stderr, "{clock}  {:<8}   what helps: {help}", pass.cluster))
                }
                _ => line,
            }
        }
        DemoEvent::Repaired { cluster, broken } => {
            writeln!(
                stderr,
                "{clock}  {cluster:<8} was broken by `{}` ({}); repaired now",
                broken.fault,
                broken.fault.summary()
            )
        }
    };
}
