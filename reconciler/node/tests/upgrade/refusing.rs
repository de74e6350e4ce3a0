//! What is refused before anything is changed, and the order of steps.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;
use stepgate_node::journal::State;
use stepgate_node::run::Ended;
use stepgate_node::step::Step;

use crate::machine::{Machine, told, write};
use crate::power::Power;
use crate::release::{MIRROR, NEW, OLD, Release, contents};

fn assert_is_refused(machine: &Machine, release: &Release, why: &str) {
    let output = machine.copy(release);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(told(&output).contains(why), "{why} in {}", told(&output));
    for (path, old, _) in contents(OLD) {
        assert!(machine.read(&path) == old, "{path}");
    }
    assert!(!machine.place("/var/lib/stepgate/node/journal.json").exists());
}

#[test]
fn release_that_is_not_whole_is_refused_before_anything_is_changed() {
    let machine = Machine::new();
    let release = Release::new(NEW);
    fs::write(release.place("/usr/bin/kubelet"), "#!/bin/sh\n").unwrap();
    fs::remove_file(release.place("/usr/bin/kubectl")).unwrap();
    assert_is_refused(&machine, &release, "files/usr/bin/kubelet of the release is sha256:");
    assert_is_refused(&machine, &release, "files/usr/bin/kubectl of the release cannot be read");

    let release = Release::new(NEW);
    let outside = tempfile::tempdir().unwrap();
    fs::copy(release.place("/usr/bin/kubelet"), outside.path().join("kubelet")).unwrap();
    fs::remove_file(release.place("/usr/bin/kubelet")).unwrap();
    symlink(outside.path().join("kubelet"), release.place("/usr/bin/kubelet")).unwrap();
    assert_is_refused(&machine, &release, "leads out of");

    for (change, why) in [
        (json!({"kubernetesVersion": "1.36"}), "is not a version of Kubernetes"),
        (json!({"architecture": "riscv64"}), "riscv64"),
        (json!({"files": []}), "kubeadm"),
        (json!({"surprise": 1}), "surprise"),
    ] {
        let mut release = Release::new(NEW);
        release.change(|manifest| {
            for (name, value) in change.as_object().unwrap() {
                manifest[name] = value.clone();
            }
        });
        assert_is_refused(&machine, &release, why);
    }
}

#[test]
fn programs_of_another_architecture_are_refused() {
    let machine = Machine::new();
    let mut release = Release::new(NEW);
    // An ELF header of 64 bits for s390x, little-endian.
    let mut program = b"\x7fELF\x02\x01\x01".to_vec();
    program.resize(18, 0);
    program.extend([22, 0]);
    release.replace("/usr/bin/kubelet", &program);
    assert_is_refused(&machine, &release, "is not a program for");
    release.replace("/usr/bin/kubelet", b"<html>not found</html>");
    assert_is_refused(&machine, &release, "neither a program nor a script");
    let other = if cfg!(target_arch = "x86_64") { "arm64" } else { "amd64" };
    release.change(|manifest| manifest["architecture"] = json!(other));
    assert_is_refused(&machine, &release, "the release is for");
}

#[test]
fn files_that_no_machine_may_have_are_refused() {
    let machine = Machine::new();
    let release = Release::new(NEW);
    let vip = "/etc/kubernetes/manifests/kube-vip.yaml";
    for (path, content, mode, why) in [
        ("/etc/shadow", "root::", "0644", "no file that the node upgrader writes"),
        ("/etc/containerd/certs.d/../config.toml", "a", "0644", "without \".\" and \"..\""),
        ("/etc/containerd/certs.d/hosts.toml", "a", "0644", "no file that the node upgrader writes"),
        (MIRROR, "a", "4755", "is not a mode"),
        (vip, "kind: Pod", "0600", "its first container has no image"),
    ] {
        release.write_files(&[(path, content, mode)]);
        assert_is_refused(&machine, &release, why);
    }
    release.write_files(&[(MIRROR, "a", "0644"), (MIRROR, "b", "0644")]);
    assert_is_refused(&machine, &release, "is named twice");
    release.write_files(&[(MIRROR, "a", "0644")]);
    write(&release.files().join("0"), "b", 0o600);
    assert_is_refused(&machine, &release, "and sha256:");
    // Nor does a release bring what is of a machine.
    let mut release = Release::new(NEW);
    release.change(|manifest| manifest["files"][0]["component"] = json!("registries"));
    assert_is_refused(&machine, &release, "is of no component of a release");
}

#[test]
fn full_disk_is_refused_before_anything_is_changed() {
    let machine = Machine::new();
    let release = Release::new(NEW);
    let mut disk = Power::until(usize::MAX, false);
    disk.free = Some(200 << 20);
    let Err(Ended::Refused(why)) = machine.upgrade(&release, &disk) else { panic!("it is not refused") };
    assert!(why.contains("has 200 MiB free, and the upgrade needs 256 MiB there"), "{why}");
    assert_eq!(disk.operations(), 0);
}

#[test]
fn versions_that_do_not_follow_are_refused() {
    for (version, why) in [("v1.37.0", "more than one minor"), ("v1.35.3", "does not go back")] {
        assert_is_refused(&Machine::new(), &Release::new(version), why);
    }
}

#[test]
fn program_that_says_another_version_is_found_before_the_old_is_touched() {
    let machine = Machine::new();
    let mut release = Release::new(NEW);
    release.replace("/usr/bin/kubelet", b"#!/bin/sh\necho Kubernetes v1.36.3\n");
    let output = machine.copy(&release);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("kubelet of the release says v1.36.3"), "{}", told(&output));
    release.replace("/usr/bin/kubelet", b"#!/bin/sh\necho segfault >&2\nexit 139\n");
    let output = machine.copy(&release);
    assert!(told(&output).contains("ended with 139: segfault"), "{}", told(&output));
    for (path, old, _) in contents(OLD) {
        assert!(machine.read(&path) == old, "{path}");
    }
}

#[test]
fn steps_out_of_order_or_of_another_target_are_refused() {
    let machine = Machine::new();
    let release = Release::new(NEW);
    let containerd = || machine.run(&["containerd", "--target", NEW]);
    assert!(told(&containerd()).contains("`copy` comes first"));
    assert!(machine.copy(&release).status.success());
    let output = machine.run(&["cni-plugins", "--target", NEW]);
    assert_eq!(output.status.code(), Some(3));
    assert!(told(&output).contains("cni-plugins comes after containerd"), "{}", told(&output));
    let output = machine.run(&["containerd", "--target", "v1.36.5"]);
    assert!(told(&output).contains("counts for nothing for v1.36.5"), "{}", told(&output));
    assert!(containerd().status.success());
    // A node in the middle of one upgrade begins no other one.
    let output = machine.copy(&Release::new("v1.36.5"));
    assert_eq!(output.status.code(), Some(3));
    assert!(told(&output).contains("the upgrade to v1.36.4 is not over"), "{}", told(&output));
}

#[test]
fn third_failed_attempt_is_the_last_until_somebody_asks_anew() {
    let machine = Machine::new();
    assert!(machine.copy(&Release::new(NEW)).status.success());
    let systemctl = fs::read_to_string(machine.programs().join("systemctl")).unwrap();
    write(&machine.programs().join("systemctl"), "#!/bin/sh\necho no bus >&2\nexit 1\n", 0o755);
    let containerd = || machine.run(&["containerd", "--target", NEW]);
    for code in [1, 1, 4, 4] {
        let output = containerd();
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        assert!(told(&output).contains("`systemctl show containerd"), "{}", told(&output));
        assert!(told(&output).contains("ended with 1: no bus"), "{}", told(&output));
    }
    let record = machine.journal().record(Step::Containerd);
    assert_eq!((record.state, record.attempts), (State::Failed, 3));
    let status = told(&machine.run(&["status"]));
    assert!(status.contains("containerd   failed"), "{status}");
    write(&machine.programs().join("systemctl"), &systemctl, 0o755);
    assert_eq!(containerd().status.code(), Some(4));
    let output = machine.run(&["containerd", "--target", NEW, "--anew"]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(machine.journal().record(Step::Containerd).state, State::Succeeded);
}

#[test]
fn service_that_does_not_come_up_is_the_old_one_again() {
    let machine = Machine::new();
    let mut release = Release::new(NEW);
    for (unit, path) in [("containerd", "/usr/bin/containerd"), ("kubelet", "/usr/bin/kubelet")] {
        let good = contents(NEW).into_iter().find(|(known, ..)| known == path).unwrap().1;
        release.replace(path, format!("{good}# breaks\n").as_bytes());
        // The old one comes up when it is in its place again.
        let old = contents(OLD).into_iter().find(|(known, ..)| known == path).unwrap().1;
        assert!(machine.copy(&release).status.success());
        if unit == "kubelet" {
            for step in [Step::Containerd, Step::CniPlugins, Step::Drain, Step::Kubeadm] {
                machine.skip(step);
            }
        }
        let output = machine.run(&[unit, "--target", NEW, "--time-limit", "3"]);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(told(&output).contains(&format!("the {unit} before the upgrade runs again")), "{}", told(&output));
        assert!(told(&output).contains(&format!("{unit} is activating, and not active")), "{}", told(&output));
        assert!(machine.read(path) == old);
        let process = if unit == "kubelet" { 200 } else { 100 };
        assert!(machine.read(&format!("/proc/{process}/exe")) == old);
        assert!(machine.journal().restarts.is_empty());
        release.replace(path, good.as_bytes());
        fs::remove_file(machine.place("/var/lib/stepgate/node/journal.json")).unwrap();
    }
}

#[test]
fn program_that_does_not_end_is_ended_and_named() {
    let machine = Machine::new();
    assert!(machine.copy(&Release::new(NEW)).status.success());
    write(&machine.programs().join("systemctl"), "#!/bin/sh\nsleep 600\n", 0o755);
    let output = machine.run(&["containerd", "--target", NEW, "--time-limit", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("`systemctl show containerd"), "{}", told(&output));
    assert!(told(&output).contains("did not end within"), "{}", told(&output));
}

#[test]
fn service_is_restarted_once_for_one_change() {
    let machine = Machine::new();
    assert!(machine.copy(&Release::new(NEW)).status.success());
    for _ in 0..3 {
        assert!(machine.run(&["containerd", "--target", NEW]).status.success());
    }
    assert_eq!(machine.restarts(), ["containerd"]);
    // Somebody puts the old one back: a step that succeeded once is done again.
    write(&machine.place("/usr/bin/containerd"), &contents(OLD)[0].1, 0o755);
    assert!(machine.run(&["containerd", "--target", NEW]).status.success());
    assert_eq!(machine.restarts(), ["containerd", "containerd"]);
    assert!(machine.read("/usr/bin/containerd") == contents(NEW)[0].1);
}

/// A container in the eyes of the program: it sees the processes of a machine whose mounts it does not have.
const CONTAINER: &str = r#"
mount --bind "$0/opt" /opt && mount --bind "$0/var/lib" /var/lib
unshare --mount sh -c 'umount /opt /var/lib && [ ! -e /opt/kubelet ] && exec "$0" "$@"' "$@"
exit $?
"#;

#[test]
fn programs_of_the_node_run_in_the_namespaces_of_its_first_process() {
    let machine = Machine::new();
    let mut release = Release::new(NEW);
    release.change(|manifest| {
        for file in manifest["files"].as_array_mut().unwrap() {
            file["path"] = json!(file["path"].as_str().unwrap().replace("/usr/bin/", "/opt/"));
        }
    });
    for (path, content, mode) in contents(OLD) {
        write(&machine.place(&path.replace("/usr/bin/", "/opt/")), &content, mode);
    }
    let command = machine.command(&["copy", "--from"]);
    let mut outside = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        outside.args(["--user", "--map-root-user"]);
    }
    outside.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", CONTAINER]).arg(machine.root());
    outside.arg(command.get_program()).args(command.get_args()).arg(release.folder());
    let output = outside.args(["--role", "worker", "--node", "w1", "--enter-host"]).output().unwrap();
    // The old kubelet and the new one are asked for their versions, and lie nowhere in the container.
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(machine.journal().version_before.to_string(), OLD);
}
