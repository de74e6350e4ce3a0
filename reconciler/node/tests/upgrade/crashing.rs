//! Loss of power at every single operation on the disk.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use stepgate_node::files::file_system::Disk;
use stepgate_node::journal::State;
use stepgate_node::step::Step;

use crate::machine::Machine;
use crate::power::Power;
use crate::release::{MIRROR, NEW, OLD, Release, contents, mirror};

/// kubeadm's own step was skipped.
fn is_replaced(path: &str) -> bool {
    path != "/usr/bin/kubeadm"
}

fn assert_each_file_is_whole(machine: &Machine, when: &str) {
    for ((path, old, mode), (_, new, _)) in all(OLD).into_iter().zip(all(NEW)) {
        let found = machine.read(&path);
        assert!(found == old || found == new, "{path} is neither old nor new {when}: {} bytes", found.len());
        let found = fs::metadata(machine.place(&path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{path} {when}");
    }
}

/// Files of release and machine.
fn all(version: &str) -> Vec<(String, String, u32)> {
    let mut all = contents(version);
    all.push((MIRROR.to_owned(), mirror(version), 0o644));
    all
}

fn assert_is_upgraded(machine: &Machine, when: &str) {
    for (path, new, _) in all(NEW).into_iter().filter(|(path, ..)| is_replaced(path)) {
        assert!(machine.read(&path) == new, "{path} {when}");
    }
    for unit in ["containerd", "kubelet"] {
        let process = if unit == "kubelet" { 200 } else { 100 };
        let runs = machine.read(&format!("/proc/{process}/exe"));
        assert!(runs == machine.read(&format!("/usr/bin/{unit}")), "{unit} runs another program {when}");
        assert!(machine.restarts().iter().any(|restarted| restarted == unit), "{unit} {when}");
    }
    let journal = machine.journal();
    assert_eq!(journal.record(Step::Kubelet).state, State::Succeeded, "{when}");
    assert!(journal.restarts.is_empty(), "{when}");
    for file in journal.files {
        let before = file.before.expect("all files were there");
        let kept = machine.place(&format!("/var/lib/stepgate/node/kept/{}", before.sha256.hexadecimal()));
        if is_replaced(file.path.as_str()) {
            let old = fs::read(&kept).unwrap_or_else(|error| panic!("{} is not kept {when}: {error}", file.path));
            assert_eq!(stepgate_node::files::digest::Digest::of(&old), before.sha256, "{when}");
        }
    }
}

#[test]
fn power_lost_at_any_operation_leaves_whole_files_and_goes_on() {
    let release = Release::new(NEW);
    let whole = Machine::new();
    let power = Power::until(usize::MAX, false);
    whole.upgrade(&release, &power).unwrap();
    assert_is_upgraded(&whole, "without a crash");
    let operations = power.operations();
    assert!(operations > 100, "{operations}");
    for end in 0..operations {
        let loses_names = end % 2 == 0;
        let machine = Machine::new();
        let power = Power::until(end, loses_names);
        machine.upgrade(&release, &power).unwrap_err();
        power.cut();
        let when = format!("after operation {end} of {operations}");
        assert_each_file_is_whole(&machine, &when);
        machine.upgrade(&release, &Disk).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_is_upgraded(&machine, &when);
    }
}
