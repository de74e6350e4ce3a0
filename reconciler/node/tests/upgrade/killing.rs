//! The real program, killed at random moments.

use std::process::Stdio;
use std::time::Duration;

use stepgate_node::step::Step;

use crate::machine::{Machine, told};
use crate::release::{MIRROR, NEW, OLD, Release, contents, mirror};

#[test]
fn program_killed_at_random_moments_ends_the_upgrade_at_last() {
    let release = Release::new(NEW);
    let mut random = fastrand::Rng::with_seed(33);
    let (mut kills, mut whole) = (0, 0);
    while kills < 60 {
        let machine = Machine::new();
        let files = release.files();
        let [from, files] = [release.folder(), &files].map(|folder| folder.to_str().unwrap());
        let copy = ["copy", "--from", from, "--files", files, "--role", "worker", "--node", "w1"];
        let steps: [&[&str]; 4] =
            [&copy, &["containerd", "--target", NEW], &["cni-plugins", "--target", NEW], &["kubelet", "--target", NEW]];
        for arguments in steps {
            if arguments[0] == "kubelet" {
                machine.skip(Step::Drain);
                machine.skip(Step::Kubeadm);
            }
            for _ in 0..5 {
                let mut child = machine.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                // The moment of the kill is what the test is about.
                std::thread::sleep(Duration::from_micros(random.u64(0..40_000)));
                kills += usize::from(child.try_wait().unwrap().is_none());
                child.kill().unwrap();
                child.wait().unwrap();
                for ((path, old, _), (_, new, _)) in contents(OLD).into_iter().zip(contents(NEW)) {
                    let found = machine.read(&path);
                    assert!(found == old || found == new, "{path} is neither old nor new");
                }
            }
            let output = machine.run(arguments);
            assert!(output.status.success(), "{}", told(&output));
        }
        assert!(machine.read(MIRROR) == mirror(NEW), "{MIRROR}");
        for (path, new, _) in contents(NEW).into_iter().filter(|(path, ..)| path != "/usr/bin/kubeadm") {
            assert!(machine.read(&path) == new, "{path}");
        }
        whole += 1;
    }
    assert!(whole >= 2, "{kills} kills in {whole} upgrades");
}

#[test]
fn call_waits_for_the_program_that_a_killed_call_left_behind() {
    let release = Release::new(NEW);
    let machine = Machine::new();
    let script = "#!/bin/sh\ntouch @/run/begun\nsleep 1\ntouch @/run/ended\necho Kubernetes v1.35.4\n";
    let slow = script.replace('@', machine.root().to_str().unwrap());
    crate::machine::write(&machine.place("/usr/bin/kubelet"), &slow, 0o755);
    let copy = ["copy", "--from", release.folder().to_str().unwrap(), "--role", "worker", "--node", "w1"];
    let mut child = machine.command(&copy).spawn().unwrap();
    while !machine.place("/run/begun").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!machine.place("/run/ended").exists(), "the program of the killed call still runs");
    let output = machine.run(&["containerd", "--target", NEW]);
    assert!(machine.place("/run/ended").exists(), "{}", told(&output));
    assert!(told(&output).contains("copy"), "{}", told(&output));
}
