//! Command blocks, run as a reader runs them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use tempfile::TempDir;

use super::{Block, REASONS, blocks, commands, read};
use crate::support::DEMO;

/// What the shell does after each command: verbs may report that something waits, and `diff` that something differs.
const CHECK: &str = r#"
ended() {
  case "$1:$3" in 0:* | 4:stepgate* | "1:stepgate diff"*) ;; *) echo "$2 ended with exit code $1" >&2; exit 97 ;; esac
}
"#;

/// A place with what a reader has: a repository with clusters and a bundle, the program, a mirror.
struct Reader {
    folder: TempDir,
}

impl Reader {
    fn new() -> Self {
        let reader = Self { folder: tempfile::tempdir().unwrap() };
        let [home, bin, next] = ["home", "bin", "next"].map(|name| reader.folder.path().join(name));
        for folder in [&home, &bin, &next] {
            std::fs::create_dir(folder).unwrap();
        }
        let identity = "[user]\nname = A Person\nemail = person@example.com\n[init]\ndefaultBranch = main\n";
        std::fs::write(home.join(".gitconfig"), identity).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stepgate"), bin.join("stepgate")).unwrap();
        // The demo's fleet before its bump, and without what a reader writes; then what the bump pushes.
        let prepare = r#"
            git clone -q "$DEMO/fleet.git" before && cd before
            cp -r bundles clusters ../next
            git checkout -q --orphan fresh "$(git rev-list --max-parents=0 main)"
            git rm -q -f stepgate.yaml && git commit -q -m "Clusters and a bundle"
            git init -q --bare ../fleet.git && git push -q ../fleet.git fresh:main
            # The demo needs no such object; a bundle names its definition all the same.
            cp -r "$DEMO/mirror" ../network
            mkdir -p ../network/artifacts.example.com/eks-d/crds
            echo '{}' >../network/artifacts.example.com/eks-d/crds/releases.distro.eks.amazonaws.com-v1alpha1.yaml
        "#;
        let output = reader.shell(prepare);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        reader
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script without what the environment of the tests could tell it.
    fn shell(&self, script: &str) -> std::process::Output {
        let path = format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STEPGATE_") && name != "STEPGATE_HELM" {
                command.env_remove(name);
            }
        }
        let (home, cache) = (self.path().join("home"), self.path().join("cache"));
        command.current_dir(self.path()).env("PATH", path).env("HOME", home).env("XDG_CACHE_HOME", cache);
        command.env("DEMO", &DEMO.folder).env("NEXT", self.path().join("next"));
        // In the place of the network.
        command
            .envs(["STEPGATE_MIRROR", "NETWORK"].map(|name| (name, self.path().join("network"))))
            .env("KUBECONFIG", "/nonexistent/kubeconfig");
        command.args(["-c", script]).output().unwrap()
    }
}

/// One shell script of the blocks that run.
fn script(document: &str, blocks: &[Block], repository: &str) -> String {
    let mut script = CHECK.to_owned();
    for block in blocks {
        if block.comment("setup: ").is_some_and(|what| what.contains("next bundle")) {
            script.push_str("cp -r \"$NEXT\"/. . && STEPGATE_MIRROR=$NETWORK:$STEPGATE_MIRROR\n");
        }
        match block.not_run() {
            Some(reason) => {
                assert!(REASONS.contains(&reason), "{document}:{}: {reason} is no known reason", block.line);
                println!("not run: {document}:{}: {reason}", block.line);
            }
            None => {
                for (line, number) in block.text.lines().zip(block.line..) {
                    let line = line.replace("STEPGATE_REPO=URL", &format!("STEPGATE_REPO={repository}"));
                    let line = line.replacen("cargo run --release -- ", "stepgate ", 1);
                    // No cluster answers here.
                    let line = line.replacen("stepgate adopt", "stepgate adopt --as-declared", 1);
                    let start: String = line.chars().take(14).filter(|sign| *sign != '"').collect();
                    let _ = writeln!(script, "{line}\nended $? {document}:{number} \"{start}\"");
                }
            }
        }
    }
    script
}

/// Follows a document from its first command to its last: both streams, and how many blocks ran.
fn follow(document: &str) -> (String, usize) {
    let (reader, blocks) = (Reader::new(), commands(document));
    let repository = format!("file://{}", reader.path().join("fleet.git").display());
    let output = reader.shell(&script(document, &blocks, &repository));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{document}: {text}");
    let deploy = git2::Repository::open_bare(reader.path().join("fleet.git")).unwrap();
    assert!(deploy.find_reference("refs/heads/deploy").is_ok(), "{document} records the clusters:\n{text}");
    (text, blocks.iter().filter(|block| block.not_run().is_none()).count())
}

/// A line without what differs from run to run.
fn general(line: &str) -> String {
    let changing = Regex::new(r"\b[0-9a-f]{12}\b|\d+\.\d+ s of yours").unwrap();
    changing.replace_all(line, "#").into_owned()
}

#[test]
fn the_commands_of_the_readme_work_and_print_what_it_shows() {
    let (printed, ran) = follow("README.md");
    assert!(ran >= 3, "{ran} blocks ran");
    let document = blocks(&read("README.md"));
    let demo = document.iter().position(|block| block.text.contains(" demo\n")).unwrap();
    let mut lines = printed.lines().map(general);
    for shown in document[demo + 1].text.lines().filter(|line| *line != "…") {
        let shown = general(shown);
        assert!(lines.any(|line| line == shown), "the demo does not print {shown:?}, or earlier:\n{printed}");
    }
}

#[test]
fn the_commands_of_getting_started_work_in_their_order() {
    let (printed, ran) = follow("reconciler/docs/getting-started.md");
    assert!(ran >= 5, "{ran} blocks ran");
    assert!(printed.contains("recorded what the source branch says"), "{printed}");
    assert!(printed.contains("Kubernetes 1.33 to 1.34"), "the bump is planned:\n{printed}");
}
