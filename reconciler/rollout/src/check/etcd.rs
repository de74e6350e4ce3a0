//! Whether etcd has room for what a rollout writes, and raises no alarm.
//!
//! An external etcd is asked itself. Of one on the machines of the control plane, Cluster API tells the alarms and
//! the API server the size; nobody tells more from outside, so that no rollout waits for what is not known.

use crate::observation::{EtcdAlarm, EtcdDatabase, EtcdDisk, Machine};
use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};

pub(super) const CHECK: Check = Check {
    name: CheckName::Etcd,
    looks_at: "etcd: alarms that are raised, the size of each database against its quota, and free disk where kubelets tell",
    severity: CheckSeverity::Blocking,
    remedy: "see that etcd's members can be asked from where Stepgate runs, or ask them with etcdctl",
    judge,
};

/// From this part of the quota on a database is told, in percent.
const FULL_SOON: u64 = 80;

/// From this part on it may be full before the rollout ends: each new member and each renewed object is written to it.
const FULL: u64 = 95;

/// How Cluster API's control plane provider begins what it says of alarms (`workload_cluster_conditions.go`).
const REPORTED: &str = "reports alarms: ";

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let etcd = &judged.inspection.etcd;
    let cluster = judged.expectation.cluster.as_ref();
    let own = judged.observation.machines.iter().filter(|machine| {
        cluster.is_some_and(|(namespace, name)| (&machine.namespace, &machine.cluster) == (namespace, name))
    });
    let mut findings: Vec<CheckFinding> = own.filter_map(reported).collect();
    findings.extend(etcd.alarms.iter().map(raised));
    findings.extend(etcd.databases.iter().filter_map(size));
    let largest = etcd.databases.iter().map(|database| (database.size, database.quota.unwrap_or(database.size))).max();
    findings.extend(etcd.disks.iter().filter_map(|known| disk(known, largest.unwrap_or_default())));
    findings.extend(etcd.unread.iter().map(CheckFinding::unreadable));
    findings
}

/// The alarms of a member on a control-plane machine.
fn reported(machine: &Machine) -> Option<CheckFinding> {
    let message = &machine.conditions.get("EtcdMemberHealthy")?.message;
    let (_, alarms) = message.split_once(REPORTED)?;
    let object = FoundObject {
        kind: "Machine".to_owned(),
        namespace: Some(machine.namespace.clone()),
        name: machine.name.clone(),
    };
    Some(alarm(alarms.trim()).on(object))
}

fn raised(known: &EtcdAlarm) -> CheckFinding {
    let finding = alarm(&known.alarm);
    match &known.object {
        Some(object) => finding.on(FoundObject::from(object)),
        None => CheckFinding { message: format!("member {}: {}", known.member, finding.message), ..finding },
    }
}

fn alarm(name: &str) -> CheckFinding {
    let (what, remedy) = if name.contains("CORRUPT") {
        (
            "what its members hold differs",
            "find the member whose data differ (`etcdctl endpoint hashkv --cluster`), replace it, then \
             `etcdctl alarm disarm`",
        )
    } else if name.contains("NOSPACE") {
        (
            "it refuses every write until the alarm is disarmed",
            "make room (`etcdctl compact`, `etcdctl defrag` of each member, or a larger --quota-backend-bytes), then \
             `etcdctl alarm disarm`",
        )
    } else {
        ("it is not one that is known here", "find its cause, then `etcdctl alarm disarm`")
    };
    CheckFinding::fail(format!("etcd has raised the alarm {name}: {what}")).remedy(remedy)
}

/// None where the database has room.
fn size(database: &EtcdDatabase) -> Option<CheckFinding> {
    let EtcdDatabase { object, size, in_use, quota } = database;
    let finding = match quota {
        None => CheckFinding::unreadable(format!(
            "etcd's database has {}, and its quota is not known: etcd's default is 2048 MiB",
            mebibytes(*size)
        )),
        Some(quota) => {
            let percent = size.saturating_mul(100).checked_div(*quota).unwrap_or(100);
            let message = format!(
                "etcd's database has {}, {percent} % of its quota of {}: when it is full etcd refuses every write",
                mebibytes(*size),
                mebibytes(*quota)
            );
            let finding = match percent {
                FULL.. => CheckFinding::fail(message),
                FULL_SOON.. => CheckFinding::warn(message),
                _ => return None,
            };
            finding.remedy(room(*size, *in_use, *quota))
        }
    };
    Some(match object {
        Some(object) => finding.on(FoundObject::from(object)),
        None => finding,
    })
}

/// None where the disk has room for all that the database may grow to, by its size and its quota.
fn disk(disk: &EtcdDisk, (size, quota): (u64, u64)) -> Option<CheckFinding> {
    let EtcdDisk { node, available, capacity } = disk;
    let message =
        format!("{} of {} are free on the disk that etcd writes to", mebibytes(*available), mebibytes(*capacity));
    // A new member takes a snapshot, and a defragmentation writes the database anew.
    let finding = if *available < size {
        CheckFinding::fail(format!("{message}, less than its database has"))
    } else if *available < quota.saturating_sub(size) || available.saturating_mul(10) < *capacity {
        CheckFinding::warn(format!("{message}: it may be full before the rollout ends"))
    } else {
        return None;
    };
    let object = FoundObject { kind: "Node".to_owned(), namespace: None, name: node.clone() };
    Some(finding.on(object).remedy("remove old images and logs there, or give the node a larger disk"))
}

fn room(size: u64, in_use: Option<u64>, quota: u64) -> String {
    let spare = in_use.map_or(0, |used| size.saturating_sub(used));
    let is_enough = spare.saturating_mul(100) / quota.max(1) >= FULL.saturating_sub(FULL_SOON);
    if is_enough {
        format!("`etcdctl defrag`, one member after the other: it gives back {}", mebibytes(spare))
    } else {
        "delete what is not needed (events, old releases, finished jobs), `etcdctl compact` and `etcdctl defrag`, or \
         raise --quota-backend-bytes"
            .to_owned()
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckStatus;

    const GIBIBYTE: u64 = 1 << 30;

    fn database(size: u64, in_use: Option<u64>, quota: Option<u64>) -> EtcdDatabase {
        EtcdDatabase { object: None, size, in_use, quota }
    }

    #[test]
    fn a_database_is_told_from_four_fifths_of_its_quota_on() {
        let quota = Some(2 * GIBIBYTE);
        for (percent, expected) in [
            (1, None),
            (79, None),
            (80, Some(CheckStatus::Warn)),
            (94, Some(CheckStatus::Warn)),
            (95, Some(CheckStatus::Fail)),
            (120, Some(CheckStatus::Fail)),
        ] {
            let bytes = (2 * GIBIBYTE * percent).div_ceil(100);
            let found = size(&database(bytes, None, quota)).map(|found| found.status);
            assert_eq!(found, expected, "{percent} %");
        }
        let full = size(&database(2 * GIBIBYTE, Some(GIBIBYTE), quota)).unwrap();
        assert!(full.message.starts_with("etcd's database has 2048 MiB, 100 % of its quota of 2048 MiB"), "{full}");
        assert!(full.remedy.unwrap().contains("gives back 1024 MiB"));
        let used = size(&database(2 * GIBIBYTE, Some(2 * GIBIBYTE), quota)).unwrap();
        assert!(used.remedy.unwrap().contains("raise --quota-backend-bytes"));
    }

    #[test]
    fn a_disk_has_to_have_room_for_what_the_database_may_grow_to() {
        let of = |available: u64, capacity: u64| {
            let known = EtcdDisk { node: "a".to_owned(), available: available << 20, capacity: capacity << 20 };
            disk(&known, (500 << 20, 2 * GIBIBYTE)).map(|found| (found.status, found.to_string()))
        };
        assert_eq!(of(2000, 10_000), None);
        let (status, text) = of(499, 10_000).unwrap();
        assert_eq!(status, CheckStatus::Fail);
        assert_eq!(
            text,
            "Node a: 499 MiB of 10000 MiB are free on the disk that etcd writes to, less than its database has"
        );
        for (available, capacity) in [(500, 10_000), (1500, 10_000), (1600, 100_000)] {
            assert_eq!(of(available, capacity).unwrap().0, CheckStatus::Warn, "{available} {capacity}");
        }
    }

    #[test]
    fn a_quota_that_nobody_tells_holds_nothing() {
        let found = size(&database(GIBIBYTE, None, None)).unwrap();
        assert!(found.status == CheckStatus::Unknown && found.is_advisory, "{found:?}");
        assert_eq!(size(&database(1, None, Some(0))).unwrap().status, CheckStatus::Fail);
    }

    #[test]
    fn an_alarm_fails_with_what_ends_it() {
        for (name, what) in [("NOSPACE", "make room"), ("CORRUPT", "replace it"), ("NEWER", "find its cause")] {
            let found = raised(&EtcdAlarm { object: None, member: "etcd-0".to_owned(), alarm: name.to_owned() });
            assert_eq!(found.status, CheckStatus::Fail);
            assert!(
                found.message.starts_with(&format!("member etcd-0: etcd has raised the alarm {name}: ")),
                "{found}"
            );
            let remedy = found.remedy.unwrap();
            assert!(remedy.contains(what) && remedy.contains("etcdctl alarm disarm"), "{remedy}");
        }
    }
}
