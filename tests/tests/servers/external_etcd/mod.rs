//! The gate of external etcd on real members: replaced one by one, broken, and without a quorum.

pub(crate) mod bench;
mod beside;
mod eks_anywhere;
pub(crate) mod once;

use std::time::Duration;

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use rollout::check::CheckStatus;
use rollout::{EtcdAct, Gate, GateVerdict, Observation, OldMembers, StageName};
use tests::servers::isolated;
use tests::waiting::until;

use bench::{Bench, ETCD, NAMESPACE, NEEDED, expected};

/// The verdict of one reading, in words: `pass`, or why not.
fn verdict(observation: &Observation, old_members: OldMembers) -> String {
    match judged(observation, old_members) {
        GateVerdict::Pass { .. } => "pass".to_owned(),
        GateVerdict::Wait { reason, .. } => format!("wait: {reason}"),
        GateVerdict::Fail { reasons } => {
            format!("fail: {}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
    }
}

/// What the gate says of one reading, without a second one.
fn judged(observation: &Observation, old_members: OldMembers) -> GateVerdict {
    let (stage, rollout) = (StageName::Etcd.into(), "0123456789ab".parse().unwrap());
    let policy = StagePolicy { maximum_age: Duration::from_secs(600), ..StagePolicy::default() };
    let expectations = [expected(old_members)];
    let gate = Gate {
        cluster: "shop",
        identity: None,
        stage: &stage,
        rollout: &rollout,
        expectations: &expectations,
        binding: None,
        policy: &policy,
    };
    let now = observation.read_at + SignedDuration::from_secs(1);
    gate.evaluate_once(observation, now)
}

async fn says(bench: &Bench, old_members: OldMembers, expected: &str) -> anyhow::Result<()> {
    let begun = Timestamp::now();
    let seen = bench.read().await;
    let said = verdict(&seen, old_members);
    ensure!(said.contains(expected), "{expected} is expected after {begun}: {said}\n{:?}", seen.etcd_clusters);
    Ok(())
}

#[test]
fn members_are_replaced_one_by_one_and_old_ones_stay_until_they_may_go() {
    isolated(
        "external_etcd::members_are_replaced_one_by_one_and_old_ones_stay_until_they_may_go",
        NEEDED,
        |programs| async {
            let mut bench = Bench::start(programs).await?;
            says(&bench, OldMembers::Gone, "pass").await?;
            let old: Vec<String> = bench.members.keys().cloned().collect();
            bench.specify("etcd-2", "3.7.1").await?;
            says(&bench, OldMembers::MayStay, "its status is stale").await?;
            for (number, name) in old.iter().enumerate() {
                bench.disown(name).await?;
                bench.status(false).await?;
                says(&bench, OldMembers::MayStay, &format!("status.replicas: {number}, 3 expected")).await?;
                let new = bench.join(true).await?;
                bench.status(number == 2).await?;
                let expected = if number == 2 { "pass" } else { "status.ready" };
                says(&bench, OldMembers::MayStay, expected).await?;
                ensure!(new.ends_with(&(number + 4).to_string()), "{new}");
            }
            let facts = format!("{:?}", bench.read().await.etcd_clusters);
            ensure!(facts.matches("Healthy").count() == 6 && facts.matches("3.7.1").count() >= 6, "{facts}");
            says(&bench, OldMembers::Gone, "belongs to nobody").await?;
            for name in &old {
                bench.remove(name, true).await?;
            }
            says(&bench, OldMembers::Gone, "pass").await?;
            // A version that no member runs is not taken for theirs.
            bench.specify("etcd-2", "3.7.2").await?;
            bench.status(true).await?;
            says(&bench, OldMembers::MayStay, "/version: 3.7.1, 3.7.2 expected").await?;
            bench.done();
            Ok(())
        },
    );
}

#[test]
fn a_broken_member_an_orphan_and_silence_open_no_gate() {
    isolated("external_etcd::a_broken_member_an_orphan_and_silence_open_no_gate", NEEDED, |programs| async {
        let mut bench = Bench::start(programs).await?;
        let old: Vec<String> = bench.members.keys().cloned().collect();
        let [_, second, _] = old.as_slice() else { anyhow::bail!("{old:?}") };
        // It was made a member, and never starts. Its controller believes that it is well.
        let broken = bench.join(false).await?;
        bench.status(true).await?;
        says(&bench, OldMembers::MayStay, &format!("Machine eksa-system/{broken}: /health: does not answer")).await?;
        // It is deleted, and its member is left behind.
        bench.remove(&broken, false).await?;
        says(&bench, OldMembers::MayStay, "is among the members, and no machine has its address").await?;
        // One that stands still is not known to be well.
        bench.members[second].process.as_ref().unwrap().stall()?;
        says(&bench, OldMembers::MayStay, &format!("Machine eksa-system/{second}: /health: not known")).await?;
        bench.members[second].process.as_ref().unwrap().resume()?;
        bench.lose_secrets().await?;
        says(&bench, OldMembers::MayStay, "Secret eksa-system/shop-apiserver-etcd-client is not there").await?;
        bench.keep_secrets().await?;
        says(&bench, OldMembers::MayStay, "is among the members, and no machine").await?;
        bench.done();
        Ok(())
    });
}

#[test]
fn a_lost_quorum_fails_and_a_leader_elected_anew_does_not() {
    isolated("external_etcd::a_lost_quorum_fails_and_a_leader_elected_anew_does_not", NEEDED, |programs| async {
        let mut bench = Bench::start(programs).await?;
        let names: Vec<String> = bench.members.keys().cloned().collect();
        bench.kill(&names[0])?;
        let said = verdict(&bench.read().await, OldMembers::MayStay);
        ensure!(said.starts_with("wait: ") && said.contains("connection refused"), "{said}");
        bench.kill(&names[1])?;
        says(&bench, OldMembers::MayStay, "fail: EtcdadmCluster eksa-system/shop-etcd: members: has lost its quorum")
            .await?;
        for name in &names[..2] {
            bench.members.get_mut(name).unwrap().process.as_mut().unwrap().restart()?;
            bench.healthy(name).await?;
        }
        says(&bench, OldMembers::MayStay, "pass").await?;
        bench.done();
        Ok(())
    });
}

#[test]
fn a_first_member_is_taken_back_and_the_cluster_is_as_before() {
    isolated("external_etcd::a_first_member_is_taken_back_and_the_cluster_is_as_before", NEEDED, |programs| async {
        let mut bench = Bench::start(programs).await?;
        let old: Vec<String> = bench.members.keys().cloned().collect();
        bench.specify("etcd-2", "3.7.1").await?;
        bench.disown(&old[0]).await?;
        let broken = bench.join(false).await?;
        bench.status(false).await?;
        let act = |before: Vec<String>| {
            let (cluster, namespace, name) = ("shop".parse()?, NAMESPACE.to_owned(), ETCD.to_owned());
            let (give_back, delete) = (vec![old[0].clone()], vec![broken.clone()]);
            anyhow::Ok(EtcdAct::TakeBack { cluster, namespace, name, before, give_back, delete })
        };
        // Somebody who is late finds that an old member has gone meanwhile, and deletes no new one.
        let gone = [old.clone(), vec!["shop-etcd-gone".to_owned()]].concat();
        bench.act(&act(gone)?).await?;
        let seen = bench.read().await;
        ensure!(seen.machines.len() == 4 && seen.etcd_clusters[0].paused_by_us, "{seen:?}");
        let act = act(old.clone())?;
        // etcd lets no member go before it has settled with the one that came.
        until("the first member is taken back", async || Ok(bench.act(&act).await.ok())).await?;
        // Cut off and done again, it is as if done once.
        bench.act(&act).await?;
        let seen = bench.read().await;
        let machines: Vec<_> = seen.machines.iter().map(|known| (known.name.clone(), known.owner.clone())).collect();
        let owned: Vec<_> = old.iter().map(|name| (name.clone(), Some(ETCD.to_owned()))).collect();
        ensure!(machines == owned, "{machines:?}");
        let etcd = &seen.etcd_clusters[0];
        let listed = format!("{:?}", etcd.membership);
        ensure!(etcd.paused_by_us && listed.matches("Healthy").count() == 3, "{etcd:?}");
        ensure!(listed.matches("EtcdMember ").count() == 3, "its member is off the list: {listed}");
        // The specification of before is applied again, and its controller goes on.
        bench.members.remove(&broken);
        bench.own(&old[0])?;
        bench.specify("etcd-1", "3.7.1").await?;
        says(&bench, OldMembers::Gone, "paused").await?;
        let (cluster, namespace, name) = ("shop".parse()?, NAMESPACE.to_owned(), ETCD.to_owned());
        bench.act(&EtcdAct::Resume { cluster, namespace, name }).await?;
        bench.status(true).await?;
        says(&bench, OldMembers::Gone, "pass").await?;
        bench.done();
        Ok(())
    });
}

#[test]
fn a_full_member_raises_an_alarm_that_holds_until_it_is_disarmed() {
    let name = "external_etcd::a_full_member_raises_an_alarm_that_holds_until_it_is_disarmed";
    isolated(name, NEEDED, |programs| async {
        let bench = Bench::start_with(programs, Some(4 << 20)).await?;
        let said = bench.checked().await?;
        ensure!(said.status == CheckStatus::Pass && said.findings.is_empty(), "{said:?}");
        bench.fill().await?;
        let told = async || {
            let said = bench.checked().await?;
            let whole: Vec<String> = said.findings.iter().map(ToString::to_string).collect();
            let alarm = |line: &&String| line.contains("etcd has raised the alarm NOSPACE");
            Ok((said.holds() && whole.iter().any(|line| alarm(&line))).then_some(whole))
        };
        let whole = until("the alarm is told", told).await?;
        let of_machine = |line: &&String| line.starts_with(&format!("Machine {NAMESPACE}/{ETCD}-"));
        ensure!(whole.iter().all(|line| of_machine(&line)), "{whole:?}");
        let size = whole.iter().find(|line| line.contains("% of its quota of 4 MiB"));
        ensure!(size.is_some(), "{whole:?}");
        // Nobody can be asked: that is told, and no rollout waits for it.
        bench.lose_secrets().await?;
        let said = bench.checked().await?;
        ensure!(said.status == CheckStatus::Unknown && !said.holds() && !said.waits(), "{said:?}");
        ensure!(said.line().contains("Secret eksa-system/shop-apiserver-etcd-client is not there"), "{said:?}");
        bench.done();
        Ok(())
    });
}
