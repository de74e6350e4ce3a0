//! A program in the place of eksctl that answers by a script and notes down what it was asked to do.

use std::path::Path;

use host::waiting::end_of;
use rollout::{EksPart, EksctlOutcome, EksctlRun};

use super::*;
use crate::watch::ChangeScope;

const CONFIG: &str = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: shop, region: eu-west-1}\n\
                      managedNodeGroups: [{name: ng-1-31}, {name: ng-1-32}]\n";

/// What it answers, and that it notes down every other command with its file.
const ANSWERS: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
case "$1 $2" in
  "version ") echo 0.215.0 ;;
  "get cluster") cat cluster.json ;;
  "get nodegroup") cat groups.json; . ./asked ;;
  "get addon") echo '[]' ;;
  *) echo "$@" >> ran; env > environment; for word in "$@"; do case "$word" in *.yaml) cat "$word" > given ;; esac; done
     . ./act ;;
esac
"#;

/// Writes a program by another process: what is open for writing here would be so in whatever another test starts at this moment,
/// and the system runs no program that somebody may still write (`ETXTBSY`).
pub(super) fn write_program(path: &Path, text: &str) {
    let mut writer = std::process::Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut writer.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A program that does this when it is to change something.
    fn new(act: &str) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        write_program(&scene.path("eksctl"), ANSWERS);
        scene.write("cluster.json", r#"[{"Name":"shop","Version":"1.32","Status":"ACTIVE"}]"#);
        scene.write("groups.json", r#"[{"Name":"ng-1-31","Status":"ACTIVE"}]"#);
        scene.write("act", act);
        scene.write("asked", "");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn digest(&self) -> String {
        program::digest_of(&self.path("eksctl")).unwrap()
    }

    /// As a new process has it.
    fn eksctl(&self) -> Eksctl {
        self.pinned(&self.digest(), "0.215.0")
    }

    fn pinned(&self, digest: &str, version: &str) -> Eksctl {
        let program = PinnedProgram::new(ProgramKind::Eksctl, self.path("eksctl"), digest, version);
        Eksctl::new(program, self.path("state"), Duration::from_secs(60))
    }
}

fn target() -> EksctlTarget {
    EksctlTarget { cluster: "shop".parse().unwrap(), name: "shop".to_owned(), region: "eu-west-1".to_owned() }
}

fn step(commit: u8) -> EksctlStep {
    let name = "ng-1-32".parse().unwrap();
    EksctlStep {
        rollout: "aaaaaaaaaaaa".parse().unwrap(),
        commit: format!("{commit:040x}").parse().unwrap(),
        part: EksPart::NodeGroup { name, version: Some("1.32".to_owned()), nodes: 1 },
        has_addon: false,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

async fn carry_out(eksctl: &Eksctl, step: EksctlStep, is_newest: bool, at: Timestamp) -> Option<EksctlHold> {
    let config = yaml::parse(CONFIG, &yaml::Limits::default()).unwrap().remove(0).root;
    let request = EksctlRequest {
        target: target(),
        step,
        config,
        is_known: &|commit| commit.as_str().ends_with('1'),
        is_newest: &|| is_newest,
    };
    eksctl.carry_out(&request, at).await;
    eksctl.read(&target(), at).await.held
}

async fn ended(eksctl: &Eksctl) -> EksctlRun {
    end_of("the run has ended", async {
        loop {
            let run = eksctl.runs.last(&target().cluster).unwrap();
            if let Some(run) = run.filter(|run| run.outcome != EksctlOutcome::Running) {
                return run;
            }
            // Nothing tells of the end of another process' child.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_group_is_made_once_with_its_own_part_of_the_file() {
    let scene = Scene::new("echo creating with AKIAIOSFODNN7EXAMPLE; echo done >&2");
    let eksctl = scene.eksctl();
    assert_eq!(carry_out(&eksctl, step(1), true, at(10)).await, None);
    let run = ended(&eksctl).await;
    assert!(matches!(run.outcome, EksctlOutcome::Succeeded { .. }), "{run:?}");
    assert_eq!(run.command, "eksctl create nodegroup -f shop.yaml --timeout 1m");
    assert_eq!(run.output, ["creating with [redacted]", "done"]);
    let given = scene.read("given");
    assert!(given.contains("ng-1-32") && !given.contains("ng-1-31"), "{given}");
    // It is not there, and it was made: nobody makes it once more.
    let held = carry_out(&eksctl, step(1), true, at(9_999)).await.unwrap();
    assert!(held.reason.contains("there is no node group ng-1-32"), "{held:?}");
    scene.write("groups.json", r#"[{"Name":"ng-1-32","Status":"ACTIVE"}]"#);
    assert_eq!(carry_out(&scene.eksctl(), step(1), true, at(10_000)).await, None);
    assert_eq!(scene.read("ran").lines().count(), 1);
    let environment = scene.read("environment");
    assert!(!environment.contains("CARGO"), "{environment}");
}

#[tokio::test]
async fn a_run_outlives_the_process_and_the_next_one_waits_for_it() {
    let scene = Scene::new("echo at work; while [ ! -e go ]; do sleep 0.05; done");
    let before = scene.eksctl();
    // With the runtime goes whoever waited for the end, as with a process.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            assert_eq!(runtime.block_on(carry_out(&before, step(1), true, at(10))), None);
        });
    });
    for second in 11..31 {
        let next = scene.eksctl();
        assert_eq!(carry_out(&next, step(1), true, at(second)).await, None);
        let run = next.read(&target(), at(second)).await.run.unwrap();
        assert_eq!(run.outcome, EksctlOutcome::Running);
    }
    // Neither does another commit begin beside it.
    let held = carry_out(&scene.eksctl(), step(2), true, at(40)).await.unwrap();
    assert!(held.reason.contains("eksctl still carries out commit"), "{held:?}");
    scene.write("groups.json", r#"[{"Name":"ng-1-32","Status":"ACTIVE"}]"#);
    scene.write("go", "");
    let last = scene.eksctl();
    assert_eq!(ended(&last).await.outcome, EksctlOutcome::Unwatched);
    assert_eq!(carry_out(&last, step(1), true, at(41)).await, None);
    assert_eq!(scene.read("ran").lines().count(), 1);
}

#[tokio::test]
async fn a_failed_run_is_said_and_tried_again_after_a_pause() {
    let line = "Error: operation error EKS: CreateNodegroup, api error AccessDeniedException: no";
    let scene = Scene::new(&format!("echo '{line}' >&2; exit 1"));
    let eksctl = scene.eksctl();
    carry_out(&eksctl, step(1), true, at(10)).await;
    let run = ended(&eksctl).await;
    assert!(matches!(&run.outcome, EksctlOutcome::Failed { status, .. } if status == "exit status: 1"), "{run:?}");
    assert_eq!(run.output, [line]);
    carry_out(&scene.eksctl(), step(1), true, at(30)).await;
    assert_eq!(scene.read("ran").lines().count(), 1);
    let later = scene.eksctl();
    carry_out(&later, step(1), true, at(1_000)).await;
    assert_eq!(ended(&later).await.attempt, 2);
    assert_eq!(scene.read("ran").lines().count(), 2);
}

#[tokio::test]
async fn another_program_than_the_named_one_is_never_started() {
    let scene = Scene::new("");
    let named = scene.digest();
    let other_version = carry_out(&scene.pinned(&named, "0.230.0"), step(1), true, at(1)).await.unwrap();
    let unread = scene.pinned(&named, "0.230.0").read(&target(), at(1)).await.unread;
    assert!(unread.values().any(|reason| reason.contains("version \"0.215.0\", and 0.230.0 was named")), "{unread:?}");
    assert!(other_version.reason.contains("before EKS has said"), "{other_version:?}");
    scene.write("eksctl", &format!("{ANSWERS}# another\n"));
    let unread = scene.pinned(&named, "0.215.0").read(&target(), at(2)).await.unread;
    assert!(unread.values().any(|reason| reason.contains("was named: it is not started")), "{unread:?}");
    carry_out(&scene.pinned(&named, "0.215.0"), step(1), true, at(3)).await;
    assert_eq!(scene.read("ran"), "");
}

#[tokio::test]
async fn nothing_is_begun_for_a_commit_that_is_not_the_newest() {
    let scene = Scene::new("");
    let held = carry_out(&scene.eksctl(), step(1), false, at(1)).await.unwrap();
    assert!(held.reason.contains("the deploy branch has moved"), "{held:?}");
    assert_eq!(scene.read("ran"), "");
    // A later commit of the rollout was carried out: whoever knows only the one before is refused.
    let eksctl = scene.eksctl();
    carry_out(&eksctl, step(2), true, at(2)).await;
    ended(&eksctl).await;
    let held = carry_out(&scene.eksctl(), step(1), true, at(3)).await.unwrap();
    assert!(held.reason.contains("is refused"), "{held:?}");
    assert_eq!(scene.read("ran").lines().count(), 1);
}

#[tokio::test]
async fn what_is_not_answered_is_unknown_and_nothing_is_begun() {
    let scene = Scene::new("");
    scene.write("groups.json", "");
    let held = carry_out(&scene.eksctl(), step(1), true, at(1)).await.unwrap();
    assert!(held.reason.contains("which node groups there are"), "{held:?}");
    let unread = scene.eksctl().read(&target(), at(1)).await.unread;
    assert_eq!(unread.keys().collect::<Vec<_>>(), ["node groups"]);
    assert_eq!(scene.read("ran"), "");
}

#[tokio::test]
async fn a_run_that_ends_while_groups_are_asked_for_is_not_begun_anew() {
    let act = r#"while [ ! -e go ]; do sleep 0.05; done; echo '[{"Name":"ng-1-32","Status":"ACTIVE"}]' > groups.json"#;
    let scene = Scene::new(act);
    let before = scene.eksctl();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            assert_eq!(runtime.block_on(carry_out(&before, step(1), true, at(10))), None);
        });
    });
    // The groups are listed as they were, and until that is told the run makes one and ends.
    scene.write("asked", "touch go; while ! flock --nonblock state/shop.log true; do sleep 0.05; done");
    let next = scene.eksctl();
    assert_eq!(carry_out(&next, step(1), true, at(20)).await, None);
    scene.write("asked", "");
    assert_eq!(ended(&next).await.outcome, EksctlOutcome::Unwatched);
    // At the same second nothing that was asked before counts.
    assert_eq!(carry_out(&next, step(1), true, at(20)).await, None);
    assert_eq!(scene.read("ran").lines().count(), 1);
}

#[tokio::test]
async fn the_end_of_a_run_is_told_by_whoever_reads_it_and_nothing_of_before_counts_then() {
    let act = r#"while [ ! -e go ]; do sleep 0.05; done; echo '[{"Name":"ng-1-32","Status":"ACTIVE"}]' > groups.json"#;
    let scene = Scene::new(act);
    let [own, others] = [(); 2].map(|()| Arc::new(Changes::default()));
    let first = scene.eksctl().telling(Arc::clone(&own));
    assert_eq!(carry_out(&first, step(1), true, at(1)).await, None);
    let next = scene.eksctl().telling(Arc::clone(&others));
    let groups = async |eksctl: &Eksctl| {
        let groups = eksctl.read(&target(), at(2)).await.node_groups.unwrap();
        groups.into_iter().map(|group| group.name).collect::<Vec<_>>()
    };
    for eksctl in [&first, &next] {
        assert_eq!(groups(eksctl).await, ["ng-1-31"]);
    }
    assert_eq!((own.of("shop"), others.of("shop")), (None, None));
    scene.write("go", "");
    for (eksctl, told) in [(&first, &own), (&next, &others)] {
        end_of("its end is told", told.changed()).await;
        assert_eq!(told.of("shop"), Some(ChangeScope::More));
        assert_eq!(groups(eksctl).await, ["ng-1-32"]);
    }
}

/// Whoever kills it at any moment: what it does is done once, as long as it says when it is on its way.
#[tokio::test]
async fn killed_at_many_moments_nothing_is_done_twice() {
    for moment in 0..12_u32 {
        let pause = f64::from(moment) / 40.0;
        // The group is on its way from its first line on, and there at the end. AWS is never seen with half an answer.
        let act = format!(
            "say() {{ echo \"$1\" > groups.new; mv groups.new groups.json; }}\n\
             say '[{{\"Name\":\"ng-1-32\",\"Status\":\"CREATING\"}}]'; echo made >> made; sleep {pause}\n\
             say '[{{\"Name\":\"ng-1-32\",\"Status\":\"ACTIVE\"}}]'"
        );
        let scene = Scene::new(&act);
        let killed = scene.eksctl();
        carry_out(&killed, step(1), true, at(1)).await;
        let pid = std::process::id();
        kill_children_of(pid, &scene.path("eksctl"));
        for second in 2..6 {
            carry_out(&scene.eksctl(), step(1), true, at(second * 1_000)).await;
        }
        let ready = scene.eksctl();
        let there = async {
            while !scene.read("groups.json").contains("ng-1-32") {
                carry_out(&ready, step(1), true, at(9_000)).await;
                // Nothing tells of the end of another process' child.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        end_of("it is there, or on its way", there).await;
        assert!(scene.read("made").lines().count() <= 1, "killed after {moment}");
    }
}

/// Kills the run that is at work now, as the end of its machine would.
fn kill_children_of(parent: u32, program: &Path) {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())) {
        let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let is_it = String::from_utf8_lossy(&command).contains(&*program.to_string_lossy());
        if is_it && u32::try_from(process).ok() != Some(parent) {
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
    }
}
