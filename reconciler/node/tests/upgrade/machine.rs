//! A folder that looks like a worker at v1.35.4, and scripts in the place of its services.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use stepgate_node::files::file_system::{Disk, FileSystem};
use stepgate_node::files::machine;
use stepgate_node::files::manifest::Source;
use stepgate_node::files::root::Root;
use stepgate_node::host::programs::{Answer, Call, HostPrograms, Programs};
use stepgate_node::journal::{Journal, Record, Role, State};
use stepgate_node::run::{Ended, Node};
use stepgate_node::step::Step;
use stepgate_node::{Choices, files::Files};
use tempfile::TempDir;

use super::PROGRAM;
use super::release::{MIRROR, OLD, Release, contents, mirror};

/// `systemctl restart` starts what lies in the unit's place, as `/proc` tells.
const SYSTEMCTL: &str = r#"#!/bin/sh
root=@ROOT@
case "$1" in
  show)
    if [ -e "$root/run/$2.broken" ]; then echo "ActiveState=activating"; echo "MainPID=0"
    else echo "ActiveState=active"; echo "MainPID=$(cat "$root/run/$2.pid")"; fi
    echo "ActiveEnterTimestampMonotonic=$(cat "$root/run/$2.since")" ;;
  restart)
    echo "$2" >>"$root/run/restarts"
    if grep -q '^# breaks' "$root/usr/bin/$2"; then touch "$root/run/$2.broken"; else rm -f "$root/run/$2.broken"; fi
    case $2 in kubelet) pid=200 ;; *) pid=100 ;; esac
    cp "$root/usr/bin/$2" "$root/proc/$pid/exe.new" && mv "$root/proc/$pid/exe.new" "$root/proc/$pid/exe"
    since=$(cat "$root/run/$2.since"); echo $((since + 1)) >"$root/run/$2.since" ;;
esac
"#;

/// The node of a test.
pub struct Machine {
    folder: TempDir,
}

impl Machine {
    /// At [`OLD`], with everything running.
    pub fn new() -> Self {
        Self::at(OLD)
    }

    /// At `version`, with everything running.
    pub fn at(version: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        for (path, content, mode) in contents(version) {
            write(&machine.place(&path), &content, mode);
        }
        write(&machine.place(MIRROR), &mirror(version), 0o644);
        write(&machine.place("/var/lib/kubelet/config.yaml"), "maxPods: 110\n", 0o644);
        write(&machine.place("/proc/sys/kernel/random/boot_id"), "b00710000\n", 0o444);
        write(&machine.place("/proc/stat"), "cpu 1\nbtime 1700000000\n", 0o444);
        for (unit, process) in [("containerd", "100"), ("kubelet", "200")] {
            write(&machine.place(&format!("/run/{unit}.pid")), process, 0o644);
            write(&machine.place(&format!("/run/{unit}.since")), "5000000", 0o644);
            fs::create_dir_all(machine.place(&format!("/proc/{process}"))).unwrap();
            fs::copy(machine.place(&format!("/usr/bin/{unit}")), machine.place(&format!("/proc/{process}/exe")))
                .unwrap();
        }
        let script = SYSTEMCTL.replace("@ROOT@", machine.root().to_str().unwrap());
        write(&machine.programs().join("systemctl"), &script, 0o755);
        machine
    }

    /// Where its root is.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Where scripts are.
    pub fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    /// Where a path of it lies.
    pub fn place(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// What lies at a path.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.place(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Units that were restarted, in order.
    pub fn restarts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.place("/run/restarts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The journal.
    pub fn journal(&self) -> Journal {
        Journal::load(&Root::new(&self.root()).unwrap()).unwrap().expect("there is a journal")
    }

    /// Changes the journal.
    pub fn change_journal(&self, change: impl FnOnce(&mut Journal)) {
        let mut journal = self.journal();
        change(&mut journal);
        journal.save(&Files::new(&Root::new(&self.root()).unwrap(), &Disk)).unwrap();
    }

    /// Steps that need a cluster count as done.
    pub fn skip(&self, step: Step) {
        self.change_journal(|journal| {
            journal.steps.insert(step, Record { state: State::Succeeded, ..Record::default() });
        });
    }

    /// The real program, with scripts before the machine's programs.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        let path = format!("{}:/usr/bin:/bin", self.programs().display());
        command.env_clear().env("PATH", path).arg("--root").arg(self.root()).args(["--soak", "0"]).args(arguments);
        command
    }

    /// The real program, to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `copy` by the real program.
    pub fn copy(&self, release: &Release) -> Output {
        let (from, files) = (release.folder(), release.files());
        let [from, files] = [from, &files].map(|folder| folder.to_str().unwrap());
        self.run(&["copy", "--from", from, "--files", files, "--role", "worker", "--node", "w1"])
    }

    /// All steps that need no cluster, in this process, on `disk`.
    pub fn upgrade(&self, release: &Release, disk: &dyn FileSystem) -> Result<(), Ended> {
        let root = Root::new(&self.root()).unwrap();
        let programs = Scripts { folder: self.programs(), host: HostPrograms::new(&root, false) };
        let choices = Choices { soak: Duration::ZERO, ..Choices::default() };
        let node = Node {
            root: &root,
            disk,
            programs: &programs,
            api: None,
            choices: &choices,
            time_limit: None,
            is_anew: false,
        };
        let source = Source::read(release.folder()).unwrap();
        node.copy(&source, &machine::read(&release.files()).unwrap(), "w1".to_owned(), Role::Worker)?;
        let target = &source.manifest.kubernetes_version;
        node.step(Step::Containerd, target)?;
        node.step(Step::CniPlugins, target)?;
        self.skip(Step::Drain);
        self.skip(Step::Kubeadm);
        node.step(Step::Kubelet, target)?;
        Ok(())
    }
}

/// The machine's programs, and scripts in the place of those that a folder cannot have.
struct Scripts {
    folder: PathBuf,
    host: HostPrograms,
}

impl Programs for Scripts {
    fn run(&self, call: &Call) -> io::Result<Answer> {
        let mut call = call.clone();
        if call.program.starts_with('/') {
            return self.host.run(&call);
        }
        // A path would be one of the node.
        call.arguments.insert(0, self.folder.join(&call.program).display().to_string());
        call.program = "sh".to_owned();
        self.host.run(&call)
    }
}

/// Writes a file, its folder too.
pub fn write(path: &Path, content: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What a program said and how it ended.
pub fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}{}", output.status.code(), text(&output.stdout), text(&output.stderr))
}
