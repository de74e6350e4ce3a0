//! P6: 2,000 edited files become one durable commit on a bare repository.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use domain::CommitId;
use domain::RepoPath;
use git::{CommitOutcome, GitSettings, PushOutcome, Repository, RepositoryLocation, Signing};

use crate::measure::{Sample, ours, peer, quoted, run as command};
use crate::report::{Report, median};
use crate::{Environment, corpus};

/// The hidden verb by which this program pushes once in a process of its own, so that all of it is measured.
pub const PUSH_VERB: &str = "push-once";

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let scratch = environment.scratch.path().join("stage-commit");
    fs::create_dir_all(&scratch)?;
    let template = scratch.join("template.git");
    let (_, commits) = corpus::repository(&template, &[1])?;
    let base = commits.first().context("a first commit")?.clone();
    command(&template, "git", &["config", "receive.autogc", "false"])?;
    let mut report = Report {
        work: "2,000 edited files become one durable commit, compared and swapped onto a bare repository".to_owned(),
        ..Report::default()
    };
    let daemon = Daemon::start(&scratch);
    if let Err(error) = &daemon {
        report.notes.push(format!("no git daemon, so the peer's push includes its server: {error:#}"));
    }
    let mut rows: [Vec<Sample>; 7] = Default::default();
    for round in 0..environment.rounds {
        let fresh = |name: &str| -> anyhow::Result<PathBuf> {
            let path = scratch.join(format!("{name}-{round}.git"));
            command(&scratch, "cp", &["-r", &template.to_string_lossy(), &path.to_string_lossy()])?;
            Ok(path)
        };
        // Ours, in place: the commit, then the swap.
        let mine = fresh("ours")?;
        let repository = Repository::open(&RepositoryLocation::Local(mine.clone()))?;
        let draft = corpus::draft(Some(base.clone()), 2)?;
        let (commit, created) = ours(|| Ok(repository.commit(&draft, &Signing::None)?))?;
        let CommitOutcome::Created(new) = created else { bail!("nothing to commit") };
        let (push, outcome) = ours(|| Ok(repository.push(&"main".parse()?, &new, Some(&base))?))?;
        if outcome != PushOutcome::Pushed {
            bail!("the push ended as {outcome:?}");
        }
        push_sample(&mut rows, 0, Sample { cpu: commit.cpu + push.cpu, wall: commit.wall + push.wall });
        push_sample(&mut rows, 1, commit);

        // Ours, through the git program: a process of its own, with the server inside.
        let target = fresh("program")?;
        let program = std::env::current_exe()?;
        let cache = scratch.join(format!("cache-{round}"));
        let script = format!("{} {PUSH_VERB} file://{} {} {base}", quoted(&program), target.display(), quoted(&cache));
        peer(&scratch, &format!("{script} refresh"))?;
        push_sample(&mut rows, 2, peer(&scratch, &script)?.0);

        // The peer: a work tree in which the files were edited.
        let target = fresh("peer")?;
        let work = scratch.join(format!("work-{round}"));
        edited_clone(&scratch, &target, &work)?;
        let who = "-c user.name=Peer -c user.email=peer@example.com";
        let url = match &daemon {
            Ok(daemon) => format!("git://127.0.0.1:{}/peer-{round}.git", daemon.port),
            Err(_) => format!("file://{}", target.display()),
        };
        let made = peer(&work, &format!("git add -A && git {who} commit -q -m 'Version 2'"))?.0;
        let pushed = peer(&work, &format!("git push -q {url} HEAD:main"))?.0;
        push_sample(&mut rows, 3, Sample { cpu: made.cpu + pushed.cpu, wall: made.wall + pushed.wall });
        push_sample(&mut rows, 4, made);

        // The same with the server counted in.
        let target_with_server = fresh("peer-with-server")?;
        let work = scratch.join(format!("work-with-server-{round}"));
        edited_clone(&scratch, &target_with_server, &work)?;
        let script = format!("git add -A && git {who} commit -q -m 'Version 2' && git push -q origin HEAD:main");
        push_sample(&mut rows, 5, peer(&work, &script)?.0);

        // fast-import into a bare repository: no push, no index.
        let imported = fresh("fast-import")?;
        let stream = scratch.join("stream");
        fast_import_stream(&stream)?;
        push_sample(&mut rows, 6, peer(&imported, &format!("git fast-import --quiet < {}", quoted(&stream)))?.0);

        if round == 0 {
            let tree = |folder: &Path| command(folder, "git", &["rev-parse", "main^{tree}"]);
            let expected = tree(&mine)?;
            for (name, folder) in [("git add", &target), ("git push", &target_with_server), ("fast-import", &imported)]
            {
                report.compare(format!("the tree id against {name}"), tree(folder)? == expected);
            }
            report.compare("the tree id through the git program", tree(&scratch.join("program-0.git"))? == expected);
            let faults = command(&mine, "git", &["fsck", "--strict", "--full", "--no-progress"])?;
            report.compare("git fsck --strict finds nothing", faults.is_empty());
        }
    }
    let cpu = |row: usize| rows.get(row).map(|samples| median(samples, |sample| sample.cpu)).unwrap_or_default();
    report.at_most("commit and swap", cpu(0), Duration::from_millis(45));
    report.at_most("commit alone", cpu(1), Duration::from_millis(40));
    report.ratio("in place over git add, commit, push (its client alone)", cpu(0), cpu(3), 8.0);
    report.ratio("commit alone over git add, commit", cpu(1), cpu(4), 5.0);
    report.ratio("commit alone over git fast-import", cpu(1), cpu(6), 5.0);
    report.ratio("by the git program over git add, commit, push (both with server)", cpu(2), cpu(5), 8.0);
    let names = [
        "stepgate: commit and swap in place, synchronised",
        "stepgate: commit alone, synchronised",
        "stepgate: commit and push by the git program, with server",
        "git add, commit, push: client alone",
        "git add, commit",
        "git add, commit, push: with server",
        "git fast-import",
    ];
    for (name, samples) in names.into_iter().zip(rows) {
        report.row(name, samples);
    }
    Ok(report)
}

fn push_sample(rows: &mut [Vec<Sample>; 7], row: usize, sample: Sample) {
    if let Some(samples) = rows.get_mut(row) {
        samples.push(sample);
    }
}

/// Commits version 2 and pushes it to a remote repository; `refresh` at the end only fetches.
pub fn push_once(arguments: &[String]) -> anyhow::Result<()> {
    let [url, cache, base, rest @ ..] = arguments else { bail!("{PUSH_VERB} URL CACHE BASE [refresh]") };
    let settings = GitSettings { cache: PathBuf::from(cache), ..GitSettings::default() };
    let repository = Repository::open_with(&url.parse()?, &settings)?;
    let main = "main".parse()?;
    if !rest.is_empty() {
        return Ok(repository.refresh(&[main])?);
    }
    let base: CommitId = base.parse()?;
    let CommitOutcome::Created(new) = repository.commit(&corpus::draft(Some(base.clone()), 2)?, &Signing::None)? else {
        bail!("nothing to commit")
    };
    match repository.push(&main, &new, Some(&base))? {
        PushOutcome::Pushed => Ok(()),
        outcome => bail!("the push ended as {outcome:?}"),
    }
}

fn edited_clone(scratch: &Path, bare: &Path, work: &Path) -> anyhow::Result<()> {
    command(scratch, "git", &["clone", "-q", &format!("file://{}", bare.display()), &work.to_string_lossy()])?;
    for (path, bytes) in edits() {
        fs::write(work.join(path.as_str()), bytes)?;
    }
    Ok(())
}

fn edits() -> impl Iterator<Item = (RepoPath, std::sync::Arc<[u8]>)> {
    corpus::files(2)
        .into_iter()
        .filter(|(path, _)| path.as_str().starts_with("clusters/") && path.file_name() != "patch.yaml")
}

fn fast_import_stream(file: &Path) -> anyhow::Result<()> {
    let mut stream = Vec::new();
    stream.extend_from_slice(
        b"commit refs/heads/main\ncommitter P <p@example.com> 1700000002 +0000\ndata 9\nVersion 2\n",
    );
    stream.extend_from_slice(b"from refs/heads/main^0\n");
    for (path, bytes) in edits() {
        write!(stream, "M 100644 inline {path}\ndata {}\n", bytes.len())?;
        stream.extend_from_slice(&bytes);
        stream.push(b'\n');
    }
    Ok(fs::write(file, stream)?)
}

/// `git daemon` on a free port, so that the peer's server is a process of its own and not measured.
struct Daemon {
    child: Child,
    port: u16,
}

impl Daemon {
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut child = Command::new("git")
            .args(["daemon", "--listen=127.0.0.1", "--export-all", "--enable=receive-pack", "--reuseaddr"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", folder.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start git daemon")?;
        let url = format!("git://127.0.0.1:{port}/template.git");
        for _ in 0..100 {
            if command(folder, "git", &["ls-remote", &url]).is_ok() {
                return Ok(Self { child, port });
            }
            if let Some(status) = child.try_wait()? {
                bail!("git daemon ended with {status}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        bail!("git daemon does not answer")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
