//! The simulator beside the real servers: in the same scenarios gates say the same, at other times.

mod course;
pub mod machines;
mod real;
mod scenario;
mod simulated;

use tests::servers::{Flux, isolated};

use self::course::PASS;
use self::real::Stand;
use self::scenario::Scenario;

/// The nodes of the cluster.
const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];

/// What is done, one after the other; gates are watched after each until nothing more changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first version is there.
    Install,
    /// What is to go wrong begins.
    Trouble,
    /// The second version is committed.
    Bump,
    /// What went wrong is put right, where no other version does that.
    Mend,
    /// Another version is committed; the others follow that commit.
    End,
}

impl Step {
    const ALL: [Self; 5] = [Self::Install, Self::Trouble, Self::Bump, Self::Mend, Self::End];

    /// The version of a scenario that this step commits; none where it commits nothing.
    fn version(self, scenario: &Scenario) -> Option<u32> {
        match self {
            Self::Install => Some(1),
            Self::Trouble | Self::Mend => None,
            Self::Bump => Some(2),
            Self::End => scenario.history.last_version(),
        }
    }

    /// Whether this step puts right what went wrong in a scenario.
    fn mends(self, scenario: &Scenario) -> bool {
        match self {
            Self::Install | Self::Trouble | Self::Bump => false,
            Self::Mend => scenario.history.last_version().is_none(),
            Self::End => scenario.history.last_version().is_some() && scenario.history.is_mended(),
        }
    }
}

#[test]
fn every_simulated_scenario_begins_and_ends_well() {
    let all = [Scenario::side_by_side(), Scenario::alone(), Scenario::of_machines()].concat();
    for scenario in &all {
        let expected = simulated::expected(scenario);
        let ends: Vec<_> = expected.iter().map(|expected| expected.ends.iter().collect::<Vec<_>>()).collect();
        for (step, expected) in Step::ALL.iter().zip(&expected) {
            println!("{} {step:?} {:?} {:?}", scenario.name, expected.ends, expected.courses[0]);
        }
        // However long anything takes, there is one end.
        assert!(ends.iter().all(|ends| ends.len() == 1), "{}: {ends:?}", scenario.name);
        assert_eq!(ends[0], [PASS], "{}", scenario.name);
        let refused = scenario.history == scenario::History::Dropped;
        assert_eq!(ends.last().unwrap() == &[PASS], !refused, "{}", scenario.name);
    }
}

#[test]
fn gates_say_the_same_of_simulated_and_of_real_clusters() {
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(Flux::NEEDED).collect();
    let name = "simulator::gates_say_the_same_of_simulated_and_of_real_clusters";
    isolated(name, &needed, async |programs| {
        let mut stand = Stand::start(&programs).await?;
        let together = Scenario::side_by_side();
        let alone = Scenario::alone();
        assert!(together.len() + alone.len() >= 50);
        stand.play(&together).await?;
        for scenario in &alone {
            stand.play(std::slice::from_ref(scenario)).await?;
        }
        stand.folder.done();
        Ok(())
    });
}

#[test]
fn gates_say_the_same_of_simulated_and_of_real_machines() {
    let name = "simulator::gates_say_the_same_of_simulated_and_of_real_machines";
    isolated(name, &super::machines::needed(), async |programs| {
        let mut stand = Stand::start(&programs).await?.with_machines(&programs).await?;
        stand.play(&Scenario::of_machines()).await?;
        stand.folder.done();
        Ok(())
    });
}
