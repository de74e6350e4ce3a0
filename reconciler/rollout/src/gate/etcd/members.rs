//! The members' own word: the list of members, and what each of them says when it is asked.

use std::collections::BTreeSet;

use crate::observation::{EtcdHealth, EtcdMember, EtcdadmCluster, Machine};
use crate::verdict::Reason;

use super::{Findings, Members, object};

/// Every machine is a member that is healthy and of the new version, every member has a machine,
/// and there is a quorum.
pub(super) fn check(
    subject: &str,
    etcd: &EtcdadmCluster,
    machines: &Members<'_>,
    members: &[EtcdMember],
    findings: &mut Findings,
) {
    check_quorum(subject, members, findings);
    let mut seen = BTreeSet::new();
    for (machine, is_new) in
        machines.owned.iter().map(|machine| (machine, true)).chain(machines.old.iter().map(|machine| (machine, false)))
    {
        let own = members.iter().find(|member| is_on(member, machine));
        seen.extend(own.map(|member| member.id.as_str()));
        check_one(machine, own, etcd.version.as_deref().filter(|_| is_new), findings);
    }
    for orphan in members.iter().filter(|member| !seen.contains(member.id.as_str())) {
        let message = format!("{} is among the members, and no machine has its address", described(orphan));
        let help = format!("etcdctl member remove {}", orphan.id);
        findings.wait(Reason::on(subject, message).field("members").help(help));
    }
    let versions: BTreeSet<&str> = members.iter().filter_map(|member| member.version.as_deref()).collect();
    let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
    findings.fact(
        subject,
        format!("{} members in its list, of etcd {versions}, each healthy by its own word", members.len()),
    );
    let mut ids: Vec<&str> = members.iter().map(|member| member.id.as_str()).collect();
    ids.sort_unstable();
    findings.settle(ids.join(","));
}

fn is_on(member: &EtcdMember, machine: &Machine) -> bool {
    machine.addresses.iter().any(|address| member.hosts.contains(address))
}

fn described(member: &EtcdMember) -> String {
    let name = if member.name.is_empty() { "one that has not started" } else { member.name.as_str() };
    format!("{} ({name}) at {}", member.id, member.hosts.join(", "))
}

/// A machine's own member; `version` is what it has to be of.
fn check_one(machine: &Machine, member: Option<&EtcdMember>, version: Option<&str>, findings: &mut Findings) {
    let Machine { namespace, name, .. } = machine;
    let subject = object("Machine", namespace, name);
    let help = format!("kubectl describe machine {name} -n {namespace}");
    let Some(member) = member else {
        // While it goes away, it is right that it is none.
        let message = if machine.deleting { "is still being deleted" } else { "is not among the members of etcd" };
        let help = if machine.owner.is_none() { format!("kubectl delete machine {name} -n {namespace}") } else { help };
        findings.wait(Reason::on(subject, message).field("members").help(help));
        return;
    };
    match &member.health {
        EtcdHealth::Healthy => {}
        EtcdHealth::Unhealthy { reason } => {
            findings.failing(Reason::on(&subject, format!("not healthy: {reason}")).field("/health").help(&help));
        }
        EtcdHealth::Down { reason } => {
            findings.failing(Reason::on(&subject, format!("does not answer: {reason}")).field("/health").help(&help));
        }
        EtcdHealth::Unknown { reason } => {
            findings.wait(Reason::on(&subject, format!("not known: {reason}")).field("/health").help(&help));
        }
    }
    if member.learner {
        findings.wait(Reason::on(&subject, "still learns, and has no vote yet").field("members").help(&help));
    }
    let Some(expected) = version else { return };
    match &member.version {
        Some(seen) if is_of(seen, expected) => {}
        Some(seen) => {
            findings.wait(Reason::on(&subject, format!("{seen}, {expected} expected")).field("/version").help(&help));
        }
        None => findings.wait(Reason::on(&subject, "not reported").field("/version").help(&help)),
    }
}

/// Whether a member of version `seen`, such as `3.5.21`, was made with `expected`, which may name a
/// distribution: `v3.5.21-eks-1-34-7`.
fn is_of(seen: &str, expected: &str) -> bool {
    let core = |text: &str| text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default().to_owned();
    core(seen) == core(expected)
}

/// A member that serves reads has proven a majority by that alone; one that cannot be asked may be
/// part of one.
fn check_quorum(subject: &str, members: &[EtcdMember], findings: &mut Findings) {
    let voters: Vec<&EtcdMember> = members.iter().filter(|member| !member.learner).collect();
    let needed = voters.len() / 2 + 1;
    let may_vote = |member: &&&EtcdMember| matches!(member.health, EtcdHealth::Healthy | EtcdHealth::Unknown { .. });
    let able = voters.iter().filter(may_vote).count();
    if voters.iter().any(|member| member.health == EtcdHealth::Healthy) || able >= needed {
        return;
    }
    let message = format!("has lost its quorum: {able} of {} members can vote, {needed} are needed", voters.len());
    let help =
        "bring the members that do not answer back, or restore a snapshot: nothing of etcd can be changed until then";
    findings.fail(Reason::on(subject, message).field("members").help(help));
}
